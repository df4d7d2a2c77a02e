package main

import (
	"encoding/json"
	"math"
	"time"

	"tempomat/limiter"
)

// account is how a key stands, for the process that takes this one's place.
type account struct {
	Class string  `json:"class"`
	ID    []byte  `json:"id"`    // its bytes need not be text
	Level float64 `json:"level"` // as in limiter.Row
}

const (
	// accountsAtOnce bounds how many are in one part of a hand-over.
	accountsAtOnce = 4096
	// leastDeficit is how many CPU-seconds a key must lack to be handed on: a key with its
	// whole burst counts like an unknown one.
	leastDeficit = 0.001
)

// tellAccounts sends all accounts that are not full, some at a time.
func tellAccounts(now time.Time, l *limiter.Limiter, send func(data []byte) error) (err error) {
	bursts := make(map[string]float64)
	for _, c := range l.Classes() {
		bursts[c.Name] = c.Budget.Burst.Seconds()
	}
	var some []account
	flush := func() {
		if len(some) == 0 || err != nil {
			return
		}
		var data []byte
		if data, err = json.Marshal(some); err == nil {
			err = send(data)
		}
		some = some[:0]
	}
	l.Dump(now, "", func(r limiter.Row) bool {
		if r.Level > bursts[r.Class]-leastDeficit || math.IsNaN(r.Level) || math.IsInf(r.Level, 0) {
			return true
		}
		if some = append(some, account{r.Class, []byte(r.ID), r.Level}); len(some) == accountsAtOnce {
			flush()
		}
		return err == nil
	})
	flush()
	return err
}

// takeAccounts charges keys what they lacked elsewhere. Those of classes that there are
// not any more are left out.
func takeAccounts(now time.Time, l *limiter.Limiter, data []byte) error {
	var some []account
	if err := json.Unmarshal(data, &some); err != nil {
		return err
	}
	for _, a := range some {
		k := limiter.Key{Class: a.Class, ID: string(a.ID)}
		if b, ok := l.Balance(now, k); ok && b.Level > a.Level {
			lacks := min(b.Level-a.Level, math.MaxInt64/float64(2*time.Second))
			l.Debit(now, limiter.Charge{Key: k, Event: limiter.Settled, Cost: time.Duration(lacks * float64(time.Second)), At: now, Received: now, Until: now})
		}
	}
	return nil
}
