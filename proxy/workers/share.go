package workers

import "time"

// leastUsed is what a database uses at least for which it is looked who waits for it.
const leastUsed = time.Millisecond

// share has those who waited pay for the database.
func (t *Tracker) share(now time.Time, all []Running) {
	used, ok := t.data.source(now)
	seen := ok && used >= leastUsed && t.askers.look(now, t.data.pids(now))
	var waited time.Duration
	waits := make([]time.Duration, len(all))
	for i := range all {
		if r := &all[i]; r.Is == Read && r.Work != nil {
			if seen {
				w := r.Work.worker
				w.asksBy, w.asks = t.askers.isOne(w.id.PID, w.asksBy)
			}
			waits[i] = r.Work.waited(now, r.Work.worker.asks)
			waited += waits[i]
		}
	}
	price := t.data.bill(used, ok, waited)
	for i, d := range waits {
		if d > 0 && price > 0 {
			all[i].Reading.Database = all[i].Work.owes(time.Duration(float64(d) * price))
		}
	}
}

// waited is for how long the request has waited for a database since the last time, if it asks
// one.
func (w *Work) waited(now time.Time, asks bool) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	more := w.newlyBlockedLocked(now)
	if w.asks = asks; !asks {
		return 0
	}
	return more
}

// owes adds to what the request has to pay for the database, and returns all of it.
func (w *Work) owes(share time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reading.Database += share
	return w.reading.Database
}
