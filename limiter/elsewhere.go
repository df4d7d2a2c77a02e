package limiter

// mostElsewhere is at how many sites beside the first a client is remembered that has no work
// there.
const mostElsewhere = 3

// visit is what the client is at another site than its first. There it has a flow of its own,
// as it has its place in that site's order. Whom the gate knows, it knows at each site.
func (c *client) visit(s *site) *client {
	n := 0
	var least **client // of those without work, that whose lead is the least loss
	for p := &c.elsewhere; *p != nil; p = &(*p).elsewhere {
		x := *p
		if x.site == s {
			x.known = x.known || c.known
			return x
		}
		n++
		if x.isIdle() && (least == nil || x.lead() < (*least).lead()) {
			least = p
		}
	}
	if n >= mostElsewhere && least != nil {
		*least = (*least).elsewhere
	}
	x := &client{first: c.first, known: c.known, site: s, elsewhere: c.elsewhere}
	c.elsewhere = x
	return x
}

// lead is by how many CPU-seconds the client is ahead of its share at its site.
func (c *client) lead() float64 {
	return max(0, c.virtualTime-c.site.clock.systemVirtualTime) * c.share
}

// isIdle tells whether nothing of the client's, or of its address, waits or runs.
func (c *client) isIdle() bool {
	if c.work > 0 || c.queued > 0 || c.running > 0 || c.address != nil && c.address.n > 0 {
		return false
	}
	if c.faces != nil {
		for _, f := range c.faces {
			if f != nil && f.queued+f.running > 0 {
				return false
			}
		}
	}
	return true
}
