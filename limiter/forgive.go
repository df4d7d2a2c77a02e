package limiter

import "time"

// Forgive sets a key's debt to none, and how far its client is ahead of its share at the
// gate. It returns the debt, in CPU-seconds, and whether the key is known. Running requests
// are still charged with what they cost. Requests that wait at the gate keep their rank;
// those that wait for the debt go. Other sidecars are not told: no Sharer can take back
// what was charged.
func (l *Limiter) Forgive(now time.Time, k Key) (forgiven float64, known bool) {
	at := l.since(now)
	forgiven, b := l.table.Forgive(at, k)
	if b != nil {
		l.gate.forgive(b.Value.client.Load())
	}
	l.requestAdvance()
	return forgiven, b != nil
}

// forgive has a client, and all that are behind its address without a session, be as
// far as the clock is, at each site.
func (g *gate) forgive(c *client) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for ; c != nil; c = c.elsewhere {
		c.forgive()
	}
}

func (c *client) forgive() {
	even := func(x *client) { x.virtualTime = min(x.virtualTime, x.site.clock.systemVirtualTime) }
	even(c)
	if c.faces == nil {
		return
	}
	for _, f := range c.faces {
		if f != nil {
			even(f)
		}
	}
}
