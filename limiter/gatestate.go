package limiter

// GateState says how the gate stands.
func (l *Limiter) GateState() GateState {
	g := l.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.limits
	return GateState{
		Workers: n.workers, WorkersBy: g.workers.source, Busy: g.busy,
		LongMost: n.long, LongBusy: g.longBusy, Holding: g.holding, Orphans: g.orphans,
		HeavySlots: n.heavy, HeavyBusy: g.heavyBusy,
		Express: n.express, ExpressBusy: g.expressBusy,
		Strangers: n.strangers, StrangerRun: g.strangerBusy,
		Probes: g.probing, Queued: g.queued, Shed: g.shed,
		Clock: g.clock, Utilisation: g.utilisation,
	}
}

// fill adds what the doctor sees of a client, if the key is one's.
func (g *gate) fill(row *Row, c *client) {
	if c == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r := &ClientRow{
		Known: c.known, Standing: c.standing,
		Lag:   max(0, c.tag-g.clock) * c.share,
		Light: int(c.light.n), Heavy: int(c.heavy.n), Waits: int(c.waits.n), Express: int(c.expressBusy),
	}
	for _, l := range []lane{c.light, c.heavy, c.waits} {
		if l.first != nil {
			if rank := l.first.rank - g.clock; r.Rank == 0 || rank < r.Rank {
				r.Rank = rank
			}
		}
	}
	row.Client = r
}
