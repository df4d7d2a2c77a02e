package limiter

// address is the level above a client: an address whose sessions, or else its
// User-Agents, are clients of their own. Together they weigh as the clients that are
// behind it, so that nobody gets more of the server by more cookies.
type address struct {
	active        *client // those that wait or run, as a list
	n             int     // of them
	clientsBehind float64 // how many clients it weighs as
	queued        int     // requests without a session that wait
}

// enter takes in a client that has work again.
func (a *address) enter(c *client) {
	if c.beside = a.active; c.beside != nil {
		c.beside.beforeIt = c
	}
	a.active = c
	a.n++
	a.reshare()
}

// leave takes out a client that has no work left.
func (a *address) leave(c *client) {
	if c.beforeIt == nil {
		a.active = c.beside
	} else {
		c.beforeIt.beside = c.beside
	}
	if c.beside != nil {
		c.beside.beforeIt = c.beforeIt
	}
	c.beside, c.beforeIt = nil, nil
	a.n--
	a.reshare()
}

// reshare gives each of the clients its part.
func (a *address) reshare() {
	part := min(1, a.clientsBehind/float64(max(1, a.n)))
	for c := a.active; c != nil; c = c.beside {
		c.reweigh(&c.site.clock, c.alone*part)
	}
}

// pool is those clients that anybody can make up: they are one flow.
type pool struct {
	flow
	queued int // requests that wait
}

// waitingWith is how many requests wait that count as the client's: at all sites those of a
// session, or of all User-Agents of an address; at this site those of all in the pool.
// Anybody has as many User-Agents, and as many names of the pool, as it likes.
func (t *Ticket) waitingWith() (n int) {
	if t.pooled {
		return t.site.pool.queued
	}
	for c := t.own().Bucket.Value.client.Load(); c != nil; c = c.elsewhere {
		switch {
		case t.session:
			n += int(c.queued)
		case c.address != nil:
			n += c.address.queued
		}
	}
	return n
}

// count counts a request that waits, or no longer does.
func (g *gate) count(t *Ticket, n int) {
	t.client.queued += int32(n) //nolint:gosec // one
	g.contend(t.site, n)
	switch {
	case t.pooled:
		t.site.pool.queued += n
	case !t.session:
		t.client.address.queued += n
	}
}
