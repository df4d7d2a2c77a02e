package master

import (
	"tempomat/limiter"
	"tempomat/limiter/smockron"
)

// Counts is what a master counted since it began.
type Counts struct {
	Malformed     map[string]uint64 `json:"malformed,omitempty"` // messages that are not sound, by what is wrong
	UnknownDomain uint64            `json:"unknownDomain"`
	Resyncs       uint64            `json:"resyncs"`
	Overload      uint64            `json:"overload"` // accounting that was dropped, oldest first, as there was too much
	Late          uint64            `json:"late"`     // orders that were past before they could be sent
}

// DomainCounts is what it counted of a domain.
type DomainCounts struct {
	Accepted  uint64  `json:"accepted"`
	Delayed   uint64  `json:"delayed"`
	Rejected  uint64  `json:"rejected"`
	Throttled uint64  `json:"throttled"` // orders to wait that were made
	Skewed    uint64  `json:"skewed"`    // messages whose times are too far from the master's, or from before it was there
	NoCost    uint64  `json:"noCost"`    // messages without the cost that a credit rule needs
	Evicted   uint64  `json:"evicted"`   // identifiers forgotten as there were too many
	Delay     float64 `json:"delay"`     // seconds that gatekeepers delayed requests, in sum
}

func (c *DomainCounts) note(a *smockron.Accounting) {
	switch a.Event {
	case limiter.Delayed:
		c.Delayed++
		c.Delay += max(0, float64(a.Until-a.Received)/1000)
	case limiter.Rejected:
		c.Rejected++
	default:
		c.Accepted++
	}
}

// reject counts a message by what is wrong with it.
func (c *Counts) reject(err error) {
	if c.Malformed == nil {
		c.Malformed = make(map[string]uint64)
	}
	c.Malformed[smockron.FaultName(err)]++
}
