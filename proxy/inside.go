package proxy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tempomat/proxy/telemetry"
)

// leastTold is the cost from which requests are told of as they run. What costs less is
// over before anybody looks.
const leastTold = 50 * time.Millisecond

// told is what was told of a request while it ran. The lock of its place among what runs
// guards it.
type told struct {
	cost   time.Duration
	wasted time.Duration // of that, after its client had left
}

// SoFar appends an Entry for each request at the backend whose cost grew since it was
// called last; that much is the Entry's Cost. What was told of a request is told again
// as Record.Told. One goroutine calls it.
func (h *Handler) SoFar(now time.Time, to []telemetry.Entry) []telemetry.Entry {
	h.running.Each(func(x *exchange) {
		if x.lingers { // it is on record
			return
		}
		cost := x.SoFar(now)
		if cost < leastTold || cost <= x.told.cost {
			return
		}
		more := cost - x.told.cost
		x.told.cost = cost
		r := telemetry.Record{
			Arrived: x.arrived, Request: x.request, Who: &x.Who, Verdict: x.Verdict, Group: x.group(),
			Guess: x.Guess, Cost: more, Orphan: x.IsOrphan(),
		}
		if r.Orphan {
			x.told.wasted += more
		}
		to = append(to, telemetry.Entry{})
		to[len(to)-1].Set(now, &r, 1)
	})
	return to
}

// mostPlaces bounds how many pages AtBackend tells apart.
const mostPlaces = 256

// AtBackend is which pages the requests at the backend are for, and of which group, the most first,
// at most limit of them. It may be called at any time.
func (h *Handler) AtBackend(limit int) []telemetry.Place {
	type place struct {
		group telemetry.Group
		shape string
	}
	counts := make(map[place]int)
	h.running.Each(func(x *exchange) {
		p := place{x.group(), x.Who.Shape}
		if _, known := counts[p]; known || len(counts) < mostPlaces {
			counts[p]++
		}
	})
	all := make([]telemetry.Place, 0, len(counts))
	for p, n := range counts {
		all = append(all, telemetry.Place{Group: p.group, Shape: p.shape, Count: n})
	}
	slices.SortFunc(all, func(a, b telemetry.Place) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Group, b.Group), cmp.Compare(a.Shape, b.Shape))
	})
	all = all[:min(limit, len(all))]
	for i := range all {
		all[i].Shape = strings.Clone(all[i].Shape)
	}
	return all
}

// WaitingByGroup counts who waits for a place at the backend. It may be called at any time.
func (h *Handler) WaitingByGroup(now time.Time) (w telemetry.Waiting) {
	h.waiting.Each(func(x *exchange) {
		g := x.group()
		w.Count[g]++
		w.Longest[g] = max(w.Longest[g], now.Sub(x.waits))
	})
	return w
}
