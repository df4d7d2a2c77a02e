package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"tempomat/config"
)

// attackTimes are how long each part of the demonstration takes.
type attackTimes struct {
	settle  time.Duration // not measured
	measure time.Duration
}

const (
	attackPeople      = 20
	attackConnections = 20
)

// runDemoAttack has people browse the demo site, and a crawler eat its CPU, first
// with the gate open, then closed, and prints what the people got.
func runDemoAttack(ctx context.Context, s source, times attackTimes, stdout, stderr io.Writer) error {
	fmt.Fprintf(stdout, `%d people read a site whose pages cost %v of CPU; one crawler asks for pages of
%v on %d connections. First without the gate, then with it; %v each.

`, attackPeople, lightPage, heavyPage, attackConnections, times.settle+times.measure)
	var results []*attackResult
	for _, mode := range []string{"observe", "fair"} {
		r, err := underAttack(ctx, s, mode, times, stderr)
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

// underAttack runs a proxy in that mode and the attack against it.
func underAttack(ctx context.Context, s source, mode string, times attackTimes, stderr io.Writer) (*attackResult, error) {
	site, closeSite, err := startDemoSite(ctx)
	if err != nil {
		return nil, err
	}
	defer closeSite()
	dir, err := os.MkdirTemp("", "tempomat-demo-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s.adapt = func(c *config.Config) {
		adaptToDemo(c, site, dir)
		c.Listen, c.Throttle.Mode, c.Log.Level, c.Log.Access = []config.Listener{{Address: "127.0.0.1:0"}}, mode, "error", "off"
	}
	c, err := s.load()
	if err != nil {
		return nil, err
	}
	c.Timeouts.Drain = 0
	sockets, err := listen(ctx, addresses(c.Listen), false)
	if err != nil {
		return nil, err
	}
	car, err := newSidecar(c, s, stderr)
	if err != nil {
		return nil, err
	}
	defer car.logs.close()
	work, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = car.run(work, sockets, nil) })
	return attack(ctx, sockets[0].Addr(), mode, times), nil
}

// attack sends everybody and waits until they are done.
func attack(ctx context.Context, at net.Addr, mode string, times attackTimes) *attackResult {
	from := time.Now().Add(times.settle)
	ctx, end := context.WithDeadline(ctx, from.Add(times.measure))
	defer end()
	_, port, _ := net.SplitHostPort(at.String())
	r := &attackResult{mode: mode, from: from, measured: times.measure}
	var all sync.WaitGroup
	for i := range attackPeople {
		all.Go(func() { r.people(newDemoVisitor("http://127.0.0.1:"+port, fmt.Sprintf("198.51.%d.7", i)).browse(ctx)) })
	}
	for range attackConnections {
		all.Go(func() { r.crawler(newDemoVisitor("http://127.0.0.1:"+port, "203.0.113.66").crawl(ctx)) })
	}
	all.Wait()
	return r
}
