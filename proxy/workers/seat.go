package workers

import (
	"errors"
	"time"

	"tempomat/cpuaccount/process"
)

// seat is where a connection to the backend ends.
type seat struct {
	Seat
	worker *worker   // nil: it is not yet known that it is the process that had the number as it was found
	held   time.Time // when it was looked at last that the process has the connection
	used   time.Time
	paid   time.Duration // of what was estimated on the connection, what its worker is not asked for again
}

// newlyEstimated is what was estimated on the connection since this was asked last.
func (s *seat) newlyEstimated(all time.Duration) time.Duration {
	d := max(0, all-s.paid)
	s.paid = all
	return d
}

// seat returns where a connection ends; nil: that is not known.
func (t *Tracker) seat(now time.Time, r *Running) (*seat, error) {
	if r.Opening {
		return nil, errWaits
	}
	c := r.Conn
	s := t.seats[c]
	if s != nil && (now.Sub(s.held) < holdsFor || t.finder.holds(&s.Seat)) {
		if now.Sub(s.held) >= holdsFor {
			s.held = now
		}
		s.used = now
		return s, nil
	}
	if now.Before(t.again) {
		return nil, errLater
	}
	found, err := t.finder.Find(now, c)
	if err != nil {
		if !errors.Is(err, errLater) && !errors.Is(err, errWaits) {
			t.again = now.Add(t.pause)
			t.pause = min(2*t.pause, mostPause)
			t.say(err)
		}
		return nil, err
	}
	t.again, t.pause = time.Time{}, leastPause
	t.say(nil)
	s = &seat{Seat: found, held: now, used: now, paid: r.Estimated}
	t.seats[c] = s
	return s, nil
}

// readingOf is how to read the process at a connection's end. What its children used since its last
// request must be seen: it may have served others meanwhile.
func (t *Tracker) readingOf(s *seat) reading {
	if s.worker == nil {
		return (*process.Handle).Usage
	}
	return since(s.worker.newestAtEnd(), t.births.Last())
}

// sits tells whether that process has the connection, and takes it in as its worker.
func (t *Tracker) sits(now time.Time, s *seat, h *process.Handle) bool {
	w := t.workers[h.ID()]
	if (w == nil || w.open.Load() != h) && !t.finder.holds(&s.Seat) {
		return false // it was opened after the seat was found, and the number is another process's by now
	}
	if w == nil {
		w = t.worker(now, h.ID())
		w.many, w.counted, w.pause = t.finder.many(now, &s.Seat), now, manyEvery
	}
	if s.worker == nil {
		s.worker = w
	}
	w.open.Store(h)
	w.used = now
	return s.worker == w
}
