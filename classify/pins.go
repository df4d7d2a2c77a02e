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
	// mostPins is the largest number of pins.
	mostPins = 1000
	// LongestPin is the longest time that a pin may last.
	LongestPin = 7 * 24 * time.Hour
)

// Pin is a standing that an administrator has temporarily assigned to all clients with a key.
type Pin struct {
	Key      limiter.Key
	Standing float64 // the factor of their share, 0.5 to 8
	Until    time.Time
}

// Pins are the current pins. The zero value has none. The methods may be called concurrently, and Apply takes
// no lock.
type Pins struct {
	mu  sync.Mutex // guards the replacement of all
	all atomic.Pointer[map[limiter.Key]Pin]
}

// Set adds a pin, which replaces an earlier pin with the same key. A pin with a standing of 0 only removes the
// earlier one. The error says what is invalid about the pin.
func (p *Pins) Set(now time.Time, pin Pin) error {
	if err := pin.check(now); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.valid(now)
	if _, known := next[pin.Key]; pin.Standing == 0 {
		if !known {
			return fmt.Errorf("there is no pin for %s %q", pin.Key.Class, pin.Key.ID)
		}
		delete(next, pin.Key)
	} else {
		if !known && len(next) >= mostPins {
			return fmt.Errorf("there are already %d pins, the maximum: remove one by setting its standing to 0", mostPins)
		}
		pin.Key = limiter.Key{Class: strings.Clone(pin.Key.Class), ID: strings.Clone(pin.Key.ID)}
		next[pin.Key] = pin
	}
	p.store(next)
	return nil
}

// check returns all faults of a pin.
func (pin *Pin) check(now time.Time) error {
	var faults []string
	if len(pin.Key.ID) > maxID { // no client has such a key, and UnmarshalBinary would reject it
		faults = append(faults, fmt.Sprintf("key: it has %d bytes; no key has more than %d", len(pin.Key.ID), maxID))
	}
	if pin.Standing != 0 && !(pin.Standing >= LeastStanding && pin.Standing <= MostStanding) { // the negation also rejects NaN
		faults = append(faults, fmt.Sprintf("standing: %v; it must be %v to %v, or 0 to remove a pin", pin.Standing, LeastStanding, MostStanding))
	}
	if pin.Standing != 0 && (!pin.Until.After(now) || pin.Until.After(now.Add(LongestPin))) {
		faults = append(faults, fmt.Sprintf("seconds: a pin must last for more than 0 s and at most %.0f s (a week)", LongestPin.Seconds()))
	}
	if len(faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(faults, "; "))
}

// store stores nil instead of an empty map, so Apply returns without a lookup.
func (p *Pins) store(next map[limiter.Key]Pin) {
	if len(next) == 0 {
		p.all.Store(nil)
		return
	}
	p.all.Store(&next)
}

// valid returns the pins that have not expired, in a new map.
func (p *Pins) valid(now time.Time) map[limiter.Key]Pin {
	next := make(map[limiter.Key]Pin)
	if all := p.all.Load(); all != nil {
		maps.Copy(next, *all)
	}
	maps.DeleteFunc(next, func(_ limiter.Key, pin Pin) bool { return !pin.Until.After(now) })
	return next
}

// All returns the current pins, sorted by class and key.
func (p *Pins) All(now time.Time) []Pin {
	return slices.SortedFunc(maps.Values(p.valid(now)), func(a, b Pin) int {
		return strings.Compare(a.Key.Class+"\x00"+a.Key.ID, b.Key.Class+"\x00"+b.Key.ID)
	})
}

// Apply assigns the standing of the first pinned key to a request that Assess has judged. A standing of 1 or
// more also vouches for the client, which then isn't a stranger.
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

// AppendBinary appends the pins as JSON, to be restored after a restart.
func (p *Pins) AppendBinary(b []byte) ([]byte, error) {
	pins := []Pin{}
	if all := p.all.Load(); all != nil {
		pins = slices.AppendSeq(pins, maps.Values(*all))
	}
	text, err := json.Marshal(pins)
	return append(b, text...), err
}

// UnmarshalBinary loads pins that AppendBinary wrote. If one of them is invalid, it changes nothing.
func (p *Pins) UnmarshalBinary(data []byte) error {
	var pins []Pin
	if err := json.Unmarshal(data, &pins); err != nil {
		return err
	}
	if len(pins) > mostPins {
		return errors.New("more pins than allowed")
	}
	next := make(map[limiter.Key]Pin, len(pins))
	for _, pin := range pins {
		if !(pin.Standing >= LeastStanding && pin.Standing <= MostStanding) || len(pin.Key.ID) > maxID {
			return fmt.Errorf("invalid pin for %s %q", pin.Key.Class, pin.Key.ID)
		}
		next[pin.Key] = pin
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.store(next)
	return nil
}
