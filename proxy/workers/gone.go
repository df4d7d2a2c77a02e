package workers

import "tempomat/cpuaccount"

// A process may be done with a request whose answer is on its way yet: the kernel keeps some MB of it for a
// client that reads slowly, if it is one that no spool takes. The process serves others then. What it uses for
// them is not this request's, nor is its priority, and the two are not served at once.

// crowd tells how many requests each process serves at once that was found, and notes which have gone on.
func (t *Tracker) crowd(all []Running) map[*worker]int {
	at := make(map[*worker]int, len(all))
	for i := range all {
		switch r := &all[i]; {
		case r.isHere():
			at[r.Work.worker]++
		case r.Work != nil && !r.Work.gone.Load():
			t.goesOn(r)
		}
	}
	for i := range all {
		if r := &all[i]; r.isHere() && at[r.Work.worker] > 1 && t.goesOn(r) {
			at[r.Work.worker]--
		}
	}
	return at
}

// isHere tells whether a process was found that serves the request, as far as was seen.
func (r *Running) isHere() bool {
	return r.Work != nil && r.Work.claim == nil && !r.Work.gone.Load()
}

// goesOn looks whether the process has gone on to others, and notes that.
func (t *Tracker) goesOn(r *Running) bool {
	w := r.Work
	if !t.hasLeft(r) {
		return false
	}
	newest := w.births.Last()
	if last, ok := w.Read(); ok && w.claim == nil {
		w.worker.end(w.at(last), newest) // who comes next pays for what it uses from here on
	}
	w.gone.Store(true)
	return true
}

// hasLeft tells whether the process has said that it serves another one, or has closed the connection. One
// that another process or descriptor has by now is not closed.
func (t *Tracker) hasLeft(r *Running) bool {
	w := r.Work
	switch {
	case w.claim != nil:
		return w.claim.hasGone()
	case w.seat == nil || w.conn == nil || t.finder.holds(&w.seat.Seat):
		return false
	}
	inode, _ := t.finder.peer(w.conn)
	return inode != w.seat.inode
}

// hasGone tells whether the process went on to another request, and serves one at a time.
func (c *claim) hasGone() bool {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.gone && !c.another
}

// lastReading is what was read last.
func (w *Work) lastReading() cpuaccount.Reading {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reading
}
