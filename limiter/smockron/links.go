package smockron

import "tempomat/limiter"

// LinkState is what the doctor shows of the link to one master.
type LinkState struct {
	Master  string   `json:"master"`
	Domains []string `json:"domains"`
	Present bool     `json:"present"` // it is connected and listens
	Synced  bool     `json:"synced"`  // it has told what it knew when it was connected
	Sent    uint64   `json:"sent"`    // accounting
	Dropped uint64   `json:"dropped"` // accounting for which the queue, or the connection, had no room
	Away    uint64   `json:"away"`    // accounting while there was no master
	Old     uint64   `json:"old"`     // accounting that was too old to be sent
	Orders  uint64   `json:"orders"`  // orders to wait
	Past    uint64   `json:"past"`    // orders that were past when they came
	Unsound uint64   `json:"unsound"` // messages that were not sound, or of no domain of ours
}

// Status implements limiter.Sharer; its Detail is what State returns.
func (g *Gatekeeper) Status() limiter.SharingStatus { return statusOf(g.State()) }

// statusOf is the links' state in the words of all Sharers.
func statusOf(links []LinkState) limiter.SharingStatus {
	all := limiter.SharingStatus{Up: make(map[string]bool, len(links)), Detail: links}
	for _, l := range links {
		all.Up["master "+l.Master] = l.Present
		all.Sent, all.Received = all.Sent+l.Sent, all.Received+l.Orders
		all.Dropped, all.Unsound = all.Dropped+l.Dropped+l.Away+l.Old, all.Unsound+l.Unsound
	}
	return all
}

// State is a picture of the links.
func (g *Gatekeeper) State() []LinkState {
	var all []LinkState
	for _, l := range g.links {
		s := LinkState{
			Master: l.master.Accounting, Present: l.counts.present.Load(), Synced: true,
			Sent: l.counts.sent.Load(), Dropped: l.outbox.Dropped() + l.counts.full.Load(), Away: l.counts.away.Load(), Old: l.counts.old.Load(),
			Orders: l.counts.orders.Load(), Past: l.counts.past.Load(), Unsound: l.counts.unsound.Load(),
		}
		for _, r := range l.routes {
			s.Domains = append(s.Domains, r.Domain)
			s.Synced = s.Synced && r.synced.Load()
		}
		all = append(all, s)
	}
	return all
}
