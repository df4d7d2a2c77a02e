package limiter

// GateState says how the gate stands.
func (l *Limiter) GateState() GateState {
	g := l.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.limits
	return GateState{
		Workers: n.workers, WorkersBy: g.workers.source, Busy: g.busy,
		LongMost: n.longest(), LongBusy: g.long(), Holding: g.load.holding, Orphans: g.orphans,
		Room: n.n, Computing: g.load.computing, Ahead: g.load.ahead, Held: g.load.held,
		Probes: g.load.probing, Queued: g.queued, Shed: g.shed,
		Clock: g.home.clock.systemVirtualTime, Utilisation: g.utilisation, Sites: g.siteStates(),
	}
}

// fill adds what the gate knows of a key that has requests, or is a client's.
func (g *gate) fill(row *Row, b *bucket) {
	c := b.client.Load()
	if c == nil && row.Running == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	row.Holds, row.Orphans = int(b.holds), int(b.orphans)
	if c == nil {
		return
	}
	r := &ClientRow{Known: c.known, Standing: c.standing}
	for ; c != nil; c = c.elsewhere {
		r.add(c)
	}
	row.Client = r
}

// add adds how the client stands at one site.
func (r *ClientRow) add(c *client) {
	r.Lead = max(r.Lead, c.lead())
	for l := c.lanes; l != nil; l = l.next {
		switch {
		case l.level.short():
			r.Light += int(l.n)
		case l.level.computes():
			r.Heavy += int(l.n)
		default:
			r.Waits += int(l.n)
		}
		if rank := l.first.rank - c.site.clock.systemVirtualTime; !l.first.stranger && (r.Rank == 0 || rank < r.Rank) {
			r.Rank = rank
		}
	}
}
