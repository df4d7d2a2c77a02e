package limiter

// address is the level above a client: an address whose sessions, or else its
// User-Agents, are clients of their own. Together they weigh as the clients that are
// behind it, so that nobody gets more of the server by more cookies.
type address struct {
	active        *client // those that wait or run, as a list
	n             int     // of them
	clientsBehind float64 // how many clients it weighs as
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
