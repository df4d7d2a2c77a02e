package shadow

import (
	"container/heap"
	"time"
)

const (
	// patience is for how long a request waits for others that came before it, and took
	// longer. One that took still longer comes as late as it is known.
	patience = time.Minute
	// mostWaiting is how many do; with more the window is shorter.
	mostWaiting = 8192
)

// window puts requests in the order in which they came.
type window struct {
	heap byArrival
	free []*seen
}

type byArrival []*seen

func (h byArrival) Len() int           { return len(h) }
func (h byArrival) Less(i, j int) bool { return h[i].came.Before(h[j].came) }
func (h byArrival) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byArrival) Push(x any)        { *h = append(*h, x.(*seen)) }
func (h *byArrival) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return x
}

func (w *window) put(s *seen) {
	var own *seen
	if n := len(w.free); n > 0 {
		own = w.free[n-1]
		w.free = w.free[:n-1]
	} else {
		own = new(seen)
	}
	*own = *s
	heap.Push(&w.heap, own)
}

// next takes out the one that came first, if that was until then, or too many wait; nil:
// there is none. It is to be given back.
func (w *window) next(until time.Time) *seen {
	if len(w.heap) == 0 || len(w.heap) <= mostWaiting && w.heap[0].came.After(until) {
		return nil
	}
	return heap.Pop(&w.heap).(*seen)
}

func (w *window) give(s *seen) {
	*s = seen{}
	w.free = append(w.free, s)
}
