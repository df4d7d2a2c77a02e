// Command demo runs a site whose pages burn CPU time, and the proxy in front of it. With -attack, it shows the effect
// of a crawler on that site without and with the gate: people browse, the crawler takes the CPU, and a table shows
// how fast the people's pages arrive.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	attackPeople      = 20
	attackConnections = 20
)

func main() {
	program := flag.String("program", "bin/tempomat-proxy", "the proxy to run")
	attack := flag.Bool("attack", false, "run the crawler's attack")
	listen := flag.String("listen", "127.0.0.1:8888", "the proxy's address")
	settle := flag.Duration("settle", 6*time.Second, "how long each part runs before it is measured")
	measure := flag.Duration("measure", 16*time.Second, "how long each part is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	var err error
	switch {
	case flag.Arg(0) == siteCommand:
		err = serveSite(ctx)
	case *attack:
		err = play(ctx, *program, *settle, *measure)
	default:
		err = show(ctx, *program, *listen)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// play runs the attack in both modes, and prints the results.
func play(ctx context.Context, program string, settle, measure time.Duration) error {
	fmt.Printf(`%d people read a site whose pages cost 20 ms of CPU time; one crawler requests pages of
400 ms on %d connections. First without the gate, then with it; %v each.

`, attackPeople, attackConnections, settle+measure)
	var results []*result
	for _, mode := range []string{"observe", "fair"} {
		d, err := startDemo(ctx, program, "127.0.0.1:0", mode)
		if err != nil {
			return err
		}
		r := attack(ctx, d.at, mode, settle, measure)
		if err := d.end(); err != nil || ctx.Err() != nil {
			return err
		}
		r.print(os.Stdout, len(results) == 0)
		results = append(results, r)
	}
	before, after := results[0].percentile(0.95), results[1].percentile(0.95)
	fmt.Printf(`
With the gate, 95 %% of the pages arrived within %s instead of %s, and the crawler still
got %.1f pages per second, with the CPU time that the people left.
`, short(after), short(before), results[1].crawled())
	return nil
}

// attack starts all visitors and waits until they are done.
func attack(ctx context.Context, site, mode string, settle, measure time.Duration) *result {
	from := time.Now().Add(settle)
	ctx, end := context.WithDeadline(ctx, from.Add(measure))
	defer end()
	r := &result{mode: mode, from: from, measured: measure}
	var all sync.WaitGroup
	for i := range attackPeople {
		all.Go(func() { r.people(newVisitor(site, fmt.Sprintf("198.51.%d.7", i)).browse(ctx)) })
	}
	for range attackConnections {
		all.Go(func() { r.crawler(newVisitor(site, "203.0.113.66").crawl(ctx)) })
	}
	all.Wait()
	return r
}

// result is the outcome for all visitors.
type result struct {
	mode     string
	from     time.Time
	measured time.Duration

	mu    sync.Mutex // guards the fields below while visitors report
	pages []time.Duration
	heavy int
}

// people adds a person's visits. A visit that was still waiting at the end counts with the time that it had waited
// by then.
func (r *result) people(vs []visit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range vs {
		if end := v.at.Add(v.took); end.After(r.from) {
			r.pages = append(r.pages, v.took)
		}
	}
}

// crawler adds the crawler's visits.
func (r *result) crawler(vs []visit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range vs {
		if v.ended && v.at.Add(v.took).After(r.from) {
			r.heavy++
		}
	}
}

// crawled returns the number of pages that the crawler got per second.
func (r *result) crawled() float64 { return float64(r.heavy) / r.measured.Seconds() }

func (r *result) percentile(p float64) time.Duration {
	if len(r.pages) == 0 {
		return 0
	}
	all := slices.Sorted(slices.Values(r.pages))
	return all[min(len(all)-1, int(p*float64(len(all))))]
}

// within returns the percentage of pages that arrived within a second.
func (r *result) within() float64 {
	n := 0
	for _, d := range r.pages {
		if d <= time.Second {
			n++
		}
	}
	return 100 * float64(n) / float64(max(1, len(r.pages)))
}

// print prints a line of the table. If head is set, it first prints the headings.
func (r *result) print(w io.Writer, head bool) {
	const form = "%-18s %8s %8s %8s %8s %9s   %s\n"
	if head {
		fmt.Fprintf(w, form, "people", "pages/s", "p50", "p95", "p99", "within 1s", "crawler")
	}
	name := "without the gate"
	if r.mode == "fair" {
		name = "with the gate"
	}
	fmt.Fprintf(w, form, name, fmt.Sprintf("%.1f", float64(len(r.pages))/r.measured.Seconds()),
		short(r.percentile(0.5)), short(r.percentile(0.95)), short(r.percentile(0.99)),
		fmt.Sprintf("%.0f %%", r.within()), fmt.Sprintf("%.1f pages/s", r.crawled()))
}

// short formats a latency for people.
func short(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

// thinking is the mean time for which a person looks at a page.
const thinking = 1500 * time.Millisecond

// visit is one request for a page.
type visit struct {
	at    time.Time
	took  time.Duration
	ended bool // whether the request was answered before the demonstration ended
}

// visitor requests pages of the demo site.
type visitor struct {
	client  *http.Client
	site    string
	address string
	visits  []visit
}

func newVisitor(site, address string) *visitor {
	jar, _ := cookiejar.New(nil) // never fails
	return &visitor{
		client: &http.Client{Jar: jar, Transport: &http.Transport{}}, site: site, address: address,
	}
}

// browse simulates a person: a page, its parts, a pause.
func (v *visitor) browse(ctx context.Context) []visit {
	defer v.client.CloseIdleConnections()
	for pause(ctx, time.Duration(rand.ExpFloat64()*float64(thinking))) { //nolint:gosec // no secret
		if v.note(ctx, "/") {
			v.get(ctx, "/style.css")
			v.get(ctx, "/logo.svg")
		}
	}
	return v.visits
}

// crawl requests one page after another.
func (v *visitor) crawl(ctx context.Context) []visit {
	defer v.client.CloseIdleConnections()
	v.client.Jar = nil
	for ctx.Err() == nil {
		if !v.note(ctx, "/heavy") {
			pause(ctx, 100*time.Millisecond)
		}
	}
	return v.visits
}

// note requests a page and records how long the answer took.
func (v *visitor) note(ctx context.Context, path string) bool {
	at := time.Now()
	ok := v.get(ctx, path)
	v.visits = append(v.visits, visit{at: at, took: time.Since(at), ended: ok})
	return ok
}

func (v *visitor) get(ctx context.Context, path string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.site+path, nil)
	if err != nil {
		return false
	}
	r.Header.Set("X-Forwarded-For", v.address)
	res, err := v.client.Do(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return err == nil && res.StatusCode == http.StatusOK
}

// pause waits, and reports whether the context is still active.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
