package shadow

import (
	"fmt"
	"testing"
	"time"

	"tempomat/proxy/telemetry"
)

// TestWhoGotNoConnectionIsAsPatientAsOthers: that is, as the median of those that left lately before anybody worked
// for them. Who was served, or left a page that was being computed, says nothing of that.
func TestWhoGotNoConnectionIsAsPatientAsOthers(t *testing.T) {
	clients := 0 // each one another
	leaves := func(outcome telemetry.Outcome, exact bool, used, left time.Duration) *seen {
		clients++
		return seenAs(t, fmt.Sprintf("192.0.2.%d", clients), 100, func(r *telemetry.Record) { r.Outcome, r.Exact, r.CPU, r.Left = outcome, exact, used, left })
	}
	down := leaves(telemetry.BackendDown, true, 0, 0)
	var l leavers
	for range fewLeavers - 1 {
		l.add(leaves(telemetry.ClientGone, true, 0, 20*time.Second))
	}
	if p := l.patience(down); p != 0 {
		t.Errorf("few have left, and it leaves after %s", p)
	}
	l.add(leaves(telemetry.ClientGone, true, 0, 20*time.Second))
	for range leaversKept {
		l.add(leaves(telemetry.ClientGone, true, time.Second, 300*time.Millisecond)) // it was being computed
		l.add(leaves(telemetry.ClientGone, false, 0, 300*time.Millisecond))          // as far as anybody knows
		l.add(leaves(telemetry.Answered, true, 0, 0))
	}
	for name, c := range map[string]struct {
		s    *seen
		want time.Duration
	}{
		"got no connection":       {down, 20 * time.Second},
		"left in truth":           {leaves(telemetry.ClientGone, true, 0, time.Second), time.Second},
		"was answered":            {leaves(telemetry.Answered, true, time.Second, 0), 0},
		"broke off":               {leaves(telemetry.BackendBroke, true, time.Second, 0), 0},
		"perhaps got to a worker": {leaves(telemetry.BackendDown, false, 0, 0), 0},
	} {
		if p := l.patience(c.s); p != c.want {
			t.Errorf("who %s leaves after %s, want %s", name, p, c.want)
		}
	}
	for range leaversKept {
		l.add(leaves(telemetry.ClientGone, true, 0, time.Minute))
	}
	if p := l.patience(down); p != time.Minute {
		t.Errorf("others left after a minute, and it leaves after %s", p)
	}
}

// TestOneClientLeavesOnce: whoever leaves a thousand requests at once, from an address or a network of IPv6, is one client of those that left, and has the
// report say nothing of the others.
func TestOneClientLeavesOnce(t *testing.T) {
	leaves := func(client string, left time.Duration) *seen {
		return seenAs(t, client, 100, func(r *telemetry.Record) {
			r.Outcome, r.CPU, r.Left = telemetry.ClientGone, 0, left
		})
	}
	down := seenAs(t, "203.0.113.1", 100, func(r *telemetry.Record) { r.Outcome, r.CPU = telemetry.BackendDown, 0 })
	var l leavers
	for range 1000 {
		l.add(leaves("198.51.100.1", 25*time.Millisecond))
	}
	if p := l.patience(down); p != 0 {
		t.Errorf("one client has left, and others leave after %s", p)
	}
	for i := range fewLeavers {
		l.add(leaves(fmt.Sprintf("192.0.2.%d", i), 20*time.Second))
	}
	for i := range 1000 {
		l.add(leaves(fmt.Sprintf("[2001:db8::%x]", i), 25*time.Millisecond))
		l.add(leaves("198.51.100.1", 25*time.Millisecond))
	}
	if p := l.patience(down); p != 20*time.Second {
		t.Errorf("two clients leave at once, the others after 20 s, and the next one after %s", p)
	}
}
