package shadow

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"tempomat/proxy/telemetry"
)

// hour is an hour of a mode.
type hour struct {
	At   int64 // its beginning, Unix time
	Mode string
	tally
}

// MarshalJSON implements json.Marshaler: the keys as they are now.
func (h *hour) MarshalJSON() ([]byte, error) {
	type plain hour // without this method
	saved := plain(*h)
	saved.Top = h.top()
	return json.Marshal(saved)
}

// Blocks returns all hours as bytes, the oldest first.
func (t *Twin) Blocks() (all [][]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.allLocked() {
		if b, err := json.Marshal(h); err == nil { // there is nothing in it that could not be
			all = append(all, b)
		}
	}
	return all
}

// allLocked are the hours that are over, and the one that runs.
func (t *Twin) allLocked() []*hour {
	if t.open == nil {
		return t.over
	}
	return append(slices.Clip(t.over), t.open)
}

// Restore takes in what Blocks returned, before the first request. If anything in it is not
// sound, it begins anew.
func (t *Twin) Restore(blocks [][]byte) error {
	var all []*hour
	for _, b := range blocks[max(0, len(blocks)-int(t.hours)-mostChanges):] {
		h := new(hour)
		if err := json.Unmarshal(b, h); err != nil {
			return fmt.Errorf("an hour in shadow is not sound: %w", err)
		}
		if !h.sound() {
			return errors.New("an hour in shadow is not sound")
		}
		all = append(all, h)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over, t.open = all, nil
	if n := len(all); n > 0 {
		t.over, t.open = all[:n-1], all[n-1]
		t.open.resume()
	}
	return nil
}

// sound tells whether an hour can be gone on with.
func (h *hour) sound() bool {
	if h.At%secondsOfHour != 0 || len(h.Groups) != telemetry.Groups || h.Top == nil || h.Causes == nil ||
		len(h.Causes) > mostNames+1 || len(h.Top) > mostNames || len(h.Mode) > 32 {
		return false
	}
	for name, d := range h.Causes {
		if d == nil || len(name) > 256 || len(d.Waits) > waitSteps || !isAmount(d.CPU) {
			return false
		}
	}
	for i := range h.Groups {
		for _, d := range []*done{&h.Groups[i].Was, &h.Groups[i].Would} {
			if len(d.Waits) > waitSteps || !isAmount(d.CPU) {
				return false
			}
		}
	}
	for _, all := range h.Top {
		if len(all) > keysCounted {
			return false
		}
	}
	return true
}

func isAmount(x float64) bool { return x >= 0 && x < math.MaxInt64 }
