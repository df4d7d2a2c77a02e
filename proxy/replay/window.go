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
	// disorder is how far a line may be behind others in addition to that: several processes
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
	text    string // address, method, host, target and agent
	ends    [4]int // of all but the last
}

// window puts requests in the order of their arrival, as far as they are known in time.
type window struct {
	epoch    time.Time
	newest   time.Duration // the latest end
	released time.Duration // the arrival of the latest one that was taken out
	heap     byArrival
	pending  *arrived // the latest one; who is due goes before it is counted into the crowd
	seq      uint64
	text     []byte // of the latest one
	bytes    int    // of the texts of those that are sorted
	seconds  [256]second
	crowd    crowd
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
	w.seq++
	a := &arrived{at: at, end: end, seq: w.seq, cost: e.cost, charged: e.charged, status: e.status, decoded: e.decoded}
	text := w.text[:0]
	for i, part := range [...][]byte{e.address, e.method, e.host, e.target} {
		text = append(text, part[:min(len(part), longestTarget)]...)
		a.ends[i] = len(text)
	}
	w.text = append(text, e.agent[:min(len(e.agent), longestAgent)]...)
	a.text = string(w.text)
	w.bytes += len(a.text)
	w.pending = a
	return true
}

// commit counts the latest one in.
func (w *window) commit() {
	a := w.pending
	if w.pending = nil; !a.charged {
		w.crowd.add(a.at, a.end)
	}
	heap.Push(&w.heap, a)
}

// next takes out the next request that is due, or all are if the log is at its end;
// nil: none is.
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
		a.cost = w.crowd.cost(a.at, a.end)
	}
	return a
}

func (w *window) due(all bool) bool {
	return len(w.heap) > 0 && (all && w.pending == nil || len(w.heap) > windowSize || w.bytes > windowBytes || w.heap[0].at <= w.newest-Window)
}

// crowd is how many requests the server that wrote the log worked on at a time, by the
// log's own durations: a request that took 8 s among twenty on two CPUs used less than
// one second of them. It is a ring of pieces of time, the newest of a little more than
// a window.
type crowd struct {
	cpus   float64
	newest time.Duration
	pieces [crowdPieces]float32 // how many requests there were, on average
}

const (
	piece       = 100 * time.Millisecond
	crowdPieces = 1024 // a power of two
)

// add counts a request in. What is longer ago than a window is not counted.
func (c *crowd) add(from, to time.Duration) {
	for c.newest/piece < to/piece {
		if to/piece-c.newest/piece > crowdPieces {
			c.newest = to - crowdPieces*piece
		}
		c.newest += piece
		c.pieces[c.newest/piece%crowdPieces] = 0
	}
	c.newest = max(c.newest, to)
	c.each(from, to, func(n *float32, part time.Duration) { *n += float32(part) / float32(piece) })
}

// cost is the CPU time that a request had which took so long, if those there shared
// the CPUs evenly.
func (c *crowd) cost(from, to time.Duration) (cost time.Duration) {
	c.each(from, to, func(n *float32, part time.Duration) {
		if crowd := float64(*n); crowd > c.cpus {
			part = time.Duration(float64(part) * c.cpus / crowd)
		}
		cost += part
	})
	return cost
}

// each calls f with the pieces that a request was there in, and for how long.
func (c *crowd) each(from, to time.Duration, f func(n *float32, part time.Duration)) {
	from = max(from, c.newest-(crowdPieces-1)*piece, 0)
	for from < to {
		end := min(to, from.Truncate(piece)+piece)
		f(&c.pieces[from/piece%crowdPieces], end-from)
		from = end
	}
}
