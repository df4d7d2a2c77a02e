package classify

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/limiter"
)

const (
	// mostPins is how many there are at a time at most.
	mostPins = 1000
	// LongestPin is for how long one holds at most.
	LongestPin = 7 * 24 * time.Hour
)

// Pin is a standing that an administrator gave the clients with a key, for a time.
type Pin struct {
	Key      limiter.Key
	Standing float64 // what their share is multiplied by, 0.5 to 8
	Until    time.Time
}

// Pins are those in force. The zero Pins are none. Its methods may be called
// concurrently; Apply takes no lock.
type Pins struct {
	mu  sync.Mutex // guards replacing all
	all atomic.Pointer[map[limiter.Key]Pin]
}

// Set puts a pin in force, instead of an earlier one with its key. A standing of 0
// takes that back. Its error says what is not allowed.
func (p *Pins) Set(now time.Time, pin Pin) error {
	if err := pin.check(now); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.valid(now)
	if _, known := next[pin.Key]; pin.Standing == 0 {
		if !known {
			return fmt.Errorf("there is no pin of %s %q", pin.Key.Class, pin.Key.ID)
		}
		delete(next, pin.Key)
	} else {
		if !known && len(next) >= mostPins {
			return fmt.Errorf("there are %d pins already, the most that there may be: take one back, with the standing 0", mostPins)
		}
		pin.Key = limiter.Key{Class: strings.Clone(pin.Key.Class), ID: strings.Clone(pin.Key.ID)}
		next[pin.Key] = pin
	}
	p.store(next)
	return nil
}

// check returns everything that is not allowed about a pin.
func (pin *Pin) check(now time.Time) error {
	var faults []string
	if len(pin.Key.ID) > maxID { // no client has one, and no state file may
		faults = append(faults, fmt.Sprintf("key: it has %d bytes; no key has more than %d", len(pin.Key.ID), maxID))
	}
	if pin.Standing != 0 && !(pin.Standing >= LeastStanding && pin.Standing <= MostStanding) { // nor NaN
		faults = append(faults, fmt.Sprintf("standing: %v; allowed is %v to %v, or 0 to take a pin back", pin.Standing, LeastStanding, MostStanding))
	}
	if pin.Standing != 0 && (!pin.Until.After(now) || pin.Until.After(now.Add(LongestPin))) {
		faults = append(faults, fmt.Sprintf("seconds: a pin holds for more than 0 s, and for at most %.0f s, a week", LongestPin.Seconds()))
	}
	if len(faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(faults, "; "))
}

// store keeps no map if there are no pins, which saves the lookup.
func (p *Pins) store(next map[limiter.Key]Pin) {
	if len(next) == 0 {
		p.all.Store(nil)
		return
	}
	p.all.Store(&next)
}

// valid are those that hold still, as a new map.
func (p *Pins) valid(now time.Time) map[limiter.Key]Pin {
	next := make(map[limiter.Key]Pin)
	if all := p.all.Load(); all != nil {
		maps.Copy(next, *all)
	}
	maps.DeleteFunc(next, func(_ limiter.Key, pin Pin) bool { return !pin.Until.After(now) })
	return next
}

// All are the pins in force, by class and key.
func (p *Pins) All(now time.Time) []Pin {
	return slices.SortedFunc(maps.Values(p.valid(now)), func(a, b Pin) int {
		return strings.Compare(a.Key.Class+"\x00"+a.Key.ID, b.Key.Class+"\x00"+b.Key.ID)
	})
}

// Apply gives a judged request the standing of the first of its keys that is pinned.
// One of 1 or more vouches for the client: it is no stranger.
func (p *Pins) Apply(now time.Time, res *Result) {
	all := p.all.Load()
	if all == nil {
		return
	}
	for _, k := range res.Keys() {
		pin, ok := (*all)[k]
		if !ok || !pin.Until.After(now) {
			continue
		}
		if res.Standing = pin.Standing; pin.Standing >= 1 {
			res.Evidence |= Attested
		}
		return
	}
}

// AppendBinary appends what survives a restart, as JSON.
func (p *Pins) AppendBinary(b []byte) ([]byte, error) {
	pins := []Pin{}
	if all := p.all.Load(); all != nil {
		pins = slices.AppendSeq(pins, maps.Values(*all))
	}
	text, err := json.Marshal(pins)
	return append(b, text...), err
}

// UnmarshalBinary takes in what AppendBinary told. If anything about it is not allowed
// it changes nothing.
func (p *Pins) UnmarshalBinary(data []byte) error {
	var pins []Pin
	if err := json.Unmarshal(data, &pins); err != nil {
		return err
	}
	if len(pins) > mostPins {
		return errors.New("more pins than there may be")
	}
	next := make(map[limiter.Key]Pin, len(pins))
	for _, pin := range pins {
		if !(pin.Standing >= LeastStanding && pin.Standing <= MostStanding) || len(pin.Key.ID) > maxID {
			return fmt.Errorf("a pin that is not allowed, of %s %q", pin.Key.Class, pin.Key.ID)
		}
		next[pin.Key] = pin
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.store(next)
	return nil
}
