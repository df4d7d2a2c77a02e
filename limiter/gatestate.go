package limiter

// GateState is what the doctor shows of the gate. Every count is of requests.
type GateState struct {
	Workers   int    `json:"workers"`   // most at the backend, as far as is known; 0: any number
	WorkersBy string `json:"workersBy"` // what tells that
	Busy      int    `json:"busy"`      // at the backend
	LongMost  int    `json:"longMost"`  // most at the backend of the longest size; of the other sizes that are not short, somewhat more. 0: any number
	LongBusy  int    `json:"longBusy"`  // at the backend and not short
	Holding   int    `json:"holding"`   // of these, those that only hold a worker: they hardly compute
	Orphans   int    `json:"orphans"`   // at the backend though their client has left
	// Room is how many requests of a size and shorter may compute at a time, and
	// Computing how many of each size do: up to 25, 100, 400 ms, 1.6, 6.4 s, and more.
	// Ahead are those of them whose clients have had more than their share, and Held
	// how many hold a worker for so long, in CPU-seconds.
	Room        int        `json:"room"`
	Computing   [rungs]int `json:"computing"`
	Ahead       [rungs]int `json:"ahead"`
	Held        [rungs]int `json:"held"`
	Probes      int        `json:"probes"`      // at the backend, of a kind that nobody knows: tried beside the others
	Queued      int        `json:"queued"`      // waiting
	Clock       float64    `json:"clock"`       // virtual CPU-seconds per unit of share
	Utilisation float64    `json:"utilisation"` // of the CPUs, 0 to 1, as last measured; negative: never
	GateCounts
	// Sites are those that are told apart, and the others; nil: none are. If there are such,
	// Clock is that of the others.
	Sites []SiteState `json:"sites,omitempty"`
}

// GateCounts are what the gate has counted since it was made. GateCounters tells of each.
type GateCounts struct {
	Shed uint64 `json:"shed"`
}

// GateCounter is one of the GateCounts: its name, in small letters with _ between words, as
// metrics have it, and what it counts.
type GateCounter struct {
	Name, Counts string
	Of           func(GateCounts) uint64
}

// GateCounters are all of them. A metric is made of each.
func GateCounters() []GateCounter {
	return []GateCounter{
		{"shed", "Requests that were refused as the queue was full.", func(c GateCounts) uint64 { return c.Shed }},
	}
}

// GateState says how the gate stands.
func (l *Limiter) GateState() GateState {
	g := l.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	n := g.limits
	workers, longest := n.workers, n.longest()
	if !g.workers.areKnown() {
		workers, longest = 0, 0
	}
	return GateState{
		Workers: workers, WorkersBy: g.workers.source, Busy: g.busy,
		LongMost: longest, LongBusy: g.long(), Holding: g.load.holding, Orphans: g.orphans,
		Room: n.n, Computing: g.load.computing, Ahead: g.load.ahead, Held: g.load.held,
		Probes: g.load.probing, Queued: g.queued, GateCounts: g.GateCounts,
		Clock: g.home.clock.systemVirtualTime, Utilisation: g.utilisation, Sites: g.siteStates(),
	}
}

// Shown is the state as it is shown: no count is above its own maximum. More may be in use than are
// known, as the number may have sunk since they went.
func (s GateState) Shown() GateState {
	if s.Workers == 0 {
		return s
	}
	s.Workers, s.LongMost = max(s.Workers, s.Busy), max(s.LongMost, s.LongBusy)
	return s
}

// fill adds what the gate knows of a key that has requests, or is a client's.
func (g *gate) fill(row *Row, b *bucket) {
	c := b.Value.client.Load()
	if c == nil && row.Running == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	row.Holds, row.Orphans = int(b.Value.holds), int(b.Value.orphans)
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
