package limiter

import (
	"testing"
	"time"

	"tempomat/limiter/account"
)

// TestWhatDebtsMean: the longest that a capped key keeps a request waiting, unless that is too long; what
// is in shadow is only told.
func TestWhatDebtsMean(t *testing.T) {
	const most = 30 * time.Second
	kinds := map[string]*account.Terms{
		"cap": {Cap: true, MaxHold: most}, "hold": {Hold: true, MaxHold: most}, "none": {MaxHold: most},
		"shadow": {Cap: true, Shadow: true, MaxHold: most}, "soon": {Cap: true, MaxHold: time.Second / 2},
	}
	owes := func(kind string, wait time.Duration) debt {
		b := new(bucket)
		b.Key = Key{ID: kind + wait.String()}
		return debt{b, kinds[kind], wait}
	}
	refused := func(key string, wait time.Duration) Verdict {
		return Verdict{Action: Refuse, Wait: wait, Key: Key{ID: key}, Reason: Debt}
	}
	told := func(key string, wait time.Duration, a Action) Verdict {
		return Verdict{Action: a, Wait: wait, Key: Key{ID: key}, Reason: Debt, Shadow: true, Would: Would{Key{ID: key}, wait, a}}
	}
	beside := refused("cap31s", 31*second)
	full := refused("cap5s", 5*second)
	full.Reason = ServerFull
	beside.Would = Would{Key{ID: "shadow40s"}, 40 * second, Refuse}
	for name, x := range map[string]struct {
		debts   []debt
		held    int
		own     int32 // of these
		want    Verdict
		waitFor string
	}{
		"nobody owes anything":      {debts: []debt{{}, owes("cap", 0)}},
		"what delays nobody":        {debts: []debt{owes("none", 5*second)}},
		"a capped key":              {debts: []debt{owes("cap", 5*second)}, waitFor: "cap5s"},
		"the worst of two":          {debts: []debt{owes("cap", 5*second), owes("cap", 9*second), owes("cap", 7*second)}, waitFor: "cap9s"},
		"beside one that holds":     {debts: []debt{owes("cap", 5*second), owes("hold", 9*second)}, waitFor: "cap5s"},
		"one that holds the answer": {debts: []debt{owes("hold", 9*second)}},
		"as long as may be":         {debts: []debt{owes("cap", most)}, waitFor: "cap30s"},
		"longer":                    {debts: []debt{owes("cap", 5*second), owes("cap", 31*second)}, want: refused("cap31s", 31*second)},
		"an answer held for longer": {debts: []debt{owes("hold", 31*second)}, want: refused("hold31s", 31*second)},
		"by a bound of its own":     {debts: []debt{owes("soon", 700*time.Millisecond)}, want: refused("soon700ms", retry)},
		"in shadow":                 {debts: []debt{owes("shadow", 5*second)}, want: told("shadow5s", 5*second, Go)},
		"in shadow, as long as may": {debts: []debt{owes("shadow", most)}, want: told("shadow30s", most, Go)},
		"in shadow, longer":         {debts: []debt{owes("shadow", 31*second)}, want: told("shadow31s", 31*second, Refuse)},
		"beside one in shadow":      {debts: []debt{owes("shadow", 40*second), owes("cap", 31*second)}, want: beside},
		"no room to wait":           {debts: []debt{owes("cap", 5*second)}, held: 512, want: full},
		"no room, but in shadow":    {debts: []debt{owes("shadow", 5*second)}, held: 512, want: told("shadow5s", 5*second, Go)},
		"no room for its answers":   {debts: []debt{owes("hold", 500*time.Millisecond)}, held: 512, own: 1, want: Verdict{Action: Refuse, Wait: retry, Key: Key{ID: "hold500ms"}, Reason: ServerFull}},
		"room for one more to wait": {debts: []debt{owes("cap", 5*second)}, held: 511, waitFor: "cap5s"},
		"no room, by others":        {debts: []debt{owes("hold", 500*time.Millisecond)}, held: 512},
		"room for just one":         {debts: []debt{owes("hold", 500*time.Millisecond)}, held: 511, own: 511},
	} {
		l := newWorld(one(Cap, Budget{CPUs: 1})).Limiter
		l.room.held = x.held
		of := &Ticket{charge: charge{n: 1}}
		l.table.Enter(0, host("a"), of.own())
		of.own().Bucket.Hold(x.own)
		got, blocking := l.decide(l.policy.Load(), of, x.debts)
		key := ""
		if blocking != nil && !got.Refused() {
			key = blocking.Key.ID
		}
		if got != x.want || key != x.waitFor {
			t.Errorf("%s: %+v, waits for %q; want %+v, %q", name, got, key, x.want, x.waitFor)
		}
	}
}
