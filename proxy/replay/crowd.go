package replay

import "time"

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
