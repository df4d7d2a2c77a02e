package demo

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// result is what everybody got.
type result struct {
	mode     string
	from     time.Time
	measured time.Duration

	mu    sync.Mutex // guards the following while visitors report
	pages []time.Duration
	heavy int
}

// people takes in what a person got. Who was still waiting at the end has waited
// at least so long.
func (r *result) people(vs []visit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range vs {
		if end := v.at.Add(v.took); end.After(r.from) {
			r.pages = append(r.pages, v.took)
		}
	}
}

// crawler takes in what the crawler got.
func (r *result) crawler(vs []visit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range vs {
		if v.ended && v.at.Add(v.took).After(r.from) {
			r.heavy++
		}
	}
}

// crawled is how many pages the crawler got each second.
func (r *result) crawled() float64 { return float64(r.heavy) / r.measured.Seconds() }

func (r *result) percentile(p float64) time.Duration {
	if len(r.pages) == 0 {
		return 0
	}
	all := slices.Sorted(slices.Values(r.pages))
	return all[min(len(all)-1, int(p*float64(len(all))))]
}

// within is the percentage of pages that came within a second.
func (r *result) within() float64 {
	n := 0
	for _, d := range r.pages {
		if d <= time.Second {
			n++
		}
	}
	return 100 * float64(n) / float64(max(1, len(r.pages)))
}

// print prints a line of the table, the first one with its head.
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

// short is a latency as people read it.
func short(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}
