package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Times are how long each part of the demonstration takes.
type Times struct {
	Settle  time.Duration // not measured
	Measure time.Duration
}

const (
	attackPeople      = 20
	attackConnections = 20
)

// Attack has people browse the demo site, and a crawler eat its CPU, first
// with the gate open, then closed, and prints what the people got. under starts the site
// and a proxy before it in a mode of throttle, and has the attack play at its address.
func Attack(ctx context.Context, times Times, stdout io.Writer, under func(mode string, play func(at net.Addr)) error) error {
	fmt.Fprintf(stdout, `%d people read a site whose pages cost %v of CPU; one crawler asks for pages of
%v on %d connections. First without the gate, then with it; %v each.

`, attackPeople, LightPage, HeavyPage, attackConnections, times.Settle+times.Measure)
	var results []*result
	for _, mode := range []string{"observe", "fair"} {
		var r *result
		err := under(mode, func(at net.Addr) { r = attack(ctx, at, mode, times) })
		if err != nil || ctx.Err() != nil {
			return err
		}
		r.print(stdout, len(results) == 0)
		results = append(results, r)
	}
	before, after := results[0].percentile(0.95), results[1].percentile(0.95)
	fmt.Fprintf(stdout, `
With the gate, 95 of 100 pages came within %s instead of %s, and the crawler still
got %.1f pages a second: all that the people left.
`, short(after), short(before), results[1].crawled())
	return nil
}

// attack sends everybody and waits until they are done.
func attack(ctx context.Context, at net.Addr, mode string, times Times) *result {
	from := time.Now().Add(times.Settle)
	ctx, end := context.WithDeadline(ctx, from.Add(times.Measure))
	defer end()
	_, port, _ := net.SplitHostPort(at.String())
	r := &result{mode: mode, from: from, measured: times.Measure}
	var all sync.WaitGroup
	for i := range attackPeople {
		all.Go(func() { r.people(newVisitor("http://127.0.0.1:"+port, fmt.Sprintf("198.51.%d.7", i)).browse(ctx)) })
	}
	for range attackConnections {
		all.Go(func() { r.crawler(newVisitor("http://127.0.0.1:"+port, "203.0.113.66").crawl(ctx)) })
	}
	all.Wait()
	return r
}
