package redis

import (
	"sync"
	"time"

	"tempomat/limiter"
)

// State is what the doctor shows of a Sharer or a Checker.
type State struct {
	Connected  bool   `json:"connected"`
	RoundTrips uint64 `json:"roundTrips"` // calls that Redis answered
	Failures   uint64 `json:"failures"`   // calls that it did not
	Batches    uint64 `json:"batches"`    // of a Sharer: calls that shared charges
	Keys       uint64 `json:"keys"`       // of a Sharer: keys in these, each once in each
	Pending    int    `json:"pending"`    // of a Sharer: keys with charges that are not sent yet
	Dropped    uint64 `json:"dropped"`    // charges that were not shared, or may not have been
	Raised     uint64 `json:"raised"`     // times that a key was found to owe
	// LastError is the last error, also of a call that was answered; empty: none so far.
	LastError string `json:"lastError,omitempty"`
	// LastContact is when Redis last answered; zero: never.
	LastContact time.Time `json:"lastContact,omitzero"`
}

// status is a Sharer's State in the words of all Sharers.
func (s State) status() limiter.SharingStatus {
	return limiter.SharingStatus{
		Up:   map[string]bool{"redis": s.Connected},
		Sent: s.RoundTrips, Received: s.Raised, Dropped: s.Dropped, Failed: s.Failures,
		Detail: s,
	}
}

// counts is what a link keeps for a State.
type counts struct {
	mu          sync.Mutex // guards the following
	roundTrips  uint64
	failures    uint64
	lastError   string
	lastContact time.Time
}

func (c *counts) answered(now time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roundTrips++
	c.lastContact = now
	if err != nil {
		c.lastError = err.Error()
	}
}

func (c *counts) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures++
	c.lastError = err.Error()
}

// noted keeps an error that was not that of a whole call.
func (c *counts) noted(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastError = err.Error()
}

// state begins a State with what the link knows.
func (l *link) state() State {
	l.counts.mu.Lock()
	defer l.counts.mu.Unlock()
	return State{
		Connected:   l.breaker.connected(),
		RoundTrips:  l.counts.roundTrips,
		Failures:    l.counts.failures,
		LastError:   l.counts.lastError,
		LastContact: l.counts.lastContact,
	}
}
