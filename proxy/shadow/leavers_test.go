package shadow

import (
	"testing"
	"time"

	"tempomat/proxy/telemetry"
)

// TestWhoGotNoConnectionIsAsPatientAsOthers: that is, as the median of those that left lately before anybody worked
// for them. Who was served, or left a page that was being computed, says nothing of that.
func TestWhoGotNoConnectionIsAsPatientAsOthers(t *testing.T) {
	leaves := func(outcome telemetry.Outcome, exact bool, used, left time.Duration) *seen {
		return seenAs(t, "192.0.2.1", 100, func(r *telemetry.Record) { r.Outcome, r.Exact, r.CPU, r.Left = outcome, exact, used, left })
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
