package replay

import (
	"container/heap"
	"time"
)

const (
	// Window is how much of a log's time is sorted. Servers write a line as its request
	// ends, so requests that took longer are known too late, and come as late as they
	// are known.
	Window = time.Minute
	// windowSize is the most requests that are sorted, and windowBytes the most of their
	// texts: a log may hold whatever clients sent.
	windowSize  = 1 << 16
	windowBytes = 32 << 20
	// usualText is how long the text of a request may be whose memory is used again.
	usualText = 512
	// disorder is how far a line may be behind others beside that: several processes
	// write the log, each when its buffer is full.
	disorder = 5 * time.Second
)

// arrived is a request of the log on its way through the window.
type arrived struct {
	at, end time.Duration // since the window's epoch
	seq     uint64
	cost    time.Duration
	charged bool
	status  int
	decoded bool
	text    []byte // address, method, host, target and agent
	ends    [4]int // of all but the last
}

// window puts requests in the order of their arrival, as far as they are known in time.
type window struct {
	epoch    time.Time
	newest   time.Duration // the latest end
	released time.Duration // the arrival of the latest one that was taken out
	heap     byArrival
	pending  *arrived // the latest one; who is due goes before it is counted into the crowd
	free     []*arrived
	seq      uint64
	bytes    int // of the texts of those that are sorted
	seconds  [256]second
	crowd    *crowd // nil: requests cost their wall time
	counts   *Lines
}

// second is how many lines there were of one.
type second struct {
	unix int64
	n    uint32
}

type byArrival []*arrived

func (h byArrival) Len() int { return len(h) }
func (h byArrival) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h byArrival) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *byArrival) Push(x any)   { *h = append(*h, x.(*arrived)) }
func (h *byArrival) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// spread is where in its second a line belongs that tells no fraction: the lines of
// one are spread evenly, and the same way each time, as the multiples of the golden
// ratio are.
func (w *window) spread(unix int64) time.Duration {
	s := &w.seconds[uint64(unix)%uint64(len(w.seconds))] //nolint:gosec // any place will do
	if s.unix != unix {
		*s = second{unix: unix}
	}
	s.n++
	const golden = 0x9e3779b9 // of 2^32
	return time.Duration(float64(s.n*golden) / (1 << 32) * float64(time.Second))
}

// put takes a request in. It returns false if it came too far behind others.
func (w *window) put(e *entry) bool {
	stamp := e.stamp
	if e.coarse {
		stamp = stamp.Add(w.spread(stamp.Unix()))
	}
	if !e.arrival {
		stamp = stamp.Add(-e.took)
	}
	if w.epoch.IsZero() {
		w.epoch = stamp.Truncate(time.Second).Add(-Window)
	}
	at := stamp.Sub(w.epoch)
	end := at + e.took
	if edge := w.newest - Window; end < edge-disorder || end < 0 {
		w.counts.Unordered++
		w.counts.Requests--
		return false
	}
	if at < w.released || at < 0 {
		if at = max(w.released, 0); end < at {
			end = at
		} else {
			w.counts.Clipped++
		}
	}
	w.newest = max(w.newest, end)
	a := w.take()
	w.seq++
	a.at, a.end, a.seq, a.cost, a.charged, a.status, a.decoded = at, end, w.seq, e.cost, e.charged, e.status, e.decoded
	a.text = a.text[:0]
	for i, part := range [...][]byte{e.address, e.method, e.host, e.target} {
		a.text = append(a.text, part[:min(len(part), longestTarget)]...)
		a.ends[i] = len(a.text)
	}
	a.text = append(a.text, e.agent[:min(len(e.agent), longestAgent)]...)
	w.bytes += len(a.text)
	w.pending = a
	return true
}

// commit counts the latest one in.
func (w *window) commit() {
	a := w.pending
	if w.pending = nil; w.crowd != nil && !a.charged {
		w.crowd.add(a.at, a.end)
	}
	heap.Push(&w.heap, a)
}

// next takes out the next request that is due, or all are if the log is at its end;
// nil: none is. It is to be given back.
func (w *window) next(all bool) *arrived {
	if !w.due(all) && w.pending != nil {
		w.commit()
	}
	if !w.due(all) {
		return nil
	}
	a := heap.Pop(&w.heap).(*arrived)
	w.released = a.at
	w.bytes -= len(a.text)
	if !a.charged {
		if a.cost = a.end - a.at; w.crowd != nil {
			a.cost = w.crowd.cost(a.at, a.end)
		}
	}
	return a
}

func (w *window) due(all bool) bool {
	return len(w.heap) > 0 && (all && w.pending == nil || len(w.heap) > windowSize || w.bytes > windowBytes || w.heap[0].at <= w.newest-Window)
}

func (w *window) take() *arrived {
	if n := len(w.free); n > 0 {
		a := w.free[n-1]
		w.free = w.free[:n-1]
		return a
	}
	return &arrived{}
}

func (w *window) give(a *arrived) {
	if cap(a.text) <= usualText {
		w.free = append(w.free, a)
	}
}
