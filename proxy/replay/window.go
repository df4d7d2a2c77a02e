package replay

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// Window is how much of a log's time is sorted. Servers write a line as its request
	// ends, so requests that took longer are known too late, and come as late as they
	// are known.
	Window = time.Minute
	// windowSize is the most requests that are sorted, and windowBytes the most of their
	// lines: a log may hold whatever clients sent.
	windowSize  = 1 << 16
	windowBytes = 32 << 20
	// disorder is how far a line may be behind others in addition to that: several processes
	// write the log, each when its buffer is full.
	disorder = 5 * time.Second
)

// window puts requests in the order of their arrival, as far as they are known in time.
type window struct {
	epoch    time.Time
	newest   time.Duration // the latest end
	released time.Duration // the arrival of the latest one that was taken out
	sorted   []*entry      // by arrival
	bytes    int           // of their lines
	random   *rand.Rand
	crowd    crowd
	counts   *Lines
}

func newWindow(cpus float64, counts *Lines) *window {
	return &window{crowd: crowd{cpus: cpus}, counts: counts, random: rand.New(rand.NewPCG(1, 2))} //nolint:gosec // the same each time
}

// date finds out when a request came and ended. It returns false if that was too far behind others.
// A line that tells no fraction of its second is of any moment in it.
func (w *window) date(e *entry) bool {
	stamp := e.stamp
	if e.coarse {
		stamp = stamp.Add(time.Duration(w.random.Float64() * float64(time.Second)))
	}
	if !e.arrival {
		stamp = stamp.Add(-e.took)
	}
	if w.epoch.IsZero() {
		w.epoch = stamp.Truncate(time.Second).Add(-Window)
	}
	e.at = stamp.Sub(w.epoch)
	e.end = e.at + e.took
	if e.end < w.newest-Window-disorder || e.end < 0 {
		w.counts.Unordered++
		w.counts.Requests--
		return false
	}
	w.newest = max(w.newest, e.end)
	return true
}

// add takes a request in that has its date, and counts it into the crowd.
func (w *window) add(e *entry) {
	if e.at < w.released || e.at < 0 {
		if e.at = max(w.released, 0); e.end < e.at {
			e.end = e.at
		} else {
			w.counts.Clipped++
		}
	}
	if !e.charged {
		w.crowd.add(e.at, e.end)
	}
	w.bytes += e.size
	i, _ := slices.BinarySearchFunc(w.sorted, e.at, func(o *entry, at time.Duration) int {
		return cmp.Or(cmp.Compare(o.at, at), -1) // behind those of the same moment
	})
	w.sorted = slices.Insert(w.sorted, i, e)
}

// next takes out the next request that is due, or the next of all; nil: there is none.
func (w *window) next(all bool) *entry {
	if len(w.sorted) == 0 || !all && len(w.sorted) <= windowSize && w.bytes <= windowBytes && w.sorted[0].at > w.newest-Window {
		return nil
	}
	e := w.sorted[0]
	w.sorted[0], w.sorted = nil, w.sorted[1:]
	w.released = e.at
	w.bytes -= e.size
	if !e.charged {
		e.cost = w.crowd.cost(e.at, e.end)
	}
	return e
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

// add counts a request. Requests longer ago than a window are not counted.
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

// each calls f with the intervals that a request covers, and how much of each.
func (c *crowd) each(from, to time.Duration, f func(n *float32, part time.Duration)) {
	from = max(from, c.newest-(crowdPieces-1)*piece, 0)
	for from < to {
		end := min(to, from.Truncate(piece)+piece)
		f(&c.pieces[from/piece%crowdPieces], end-from)
		from = end
	}
}
