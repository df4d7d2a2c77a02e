package limiter

import (
	"testing"
	"time"

	"tempomat/limiter/account"
)

// TestDebtsDelay: the capped key with the longest wait delays a request, unless that wait is too long. The
// wait of a key in shadow is only reported.
func TestDebtsDelay(t *testing.T) {
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
		own     int32 // held responses of its client
		want    Verdict
		waitFor string
	}{
		"no key owes anything":                       {debts: []debt{{}, owes("cap", 0)}},
		"a debt that delays no request":              {debts: []debt{owes("none", 5*second)}},
		"a capped key":                               {debts: []debt{owes("cap", 5*second)}, waitFor: "cap5s"},
		"the worst of three capped keys":             {debts: []debt{owes("cap", 5*second), owes("cap", 9*second), owes("cap", 7*second)}, waitFor: "cap9s"},
		"a capped key and one that holds the answer": {debts: []debt{owes("cap", 5*second), owes("hold", 9*second)}, waitFor: "cap5s"},
		"one that holds the answer":                  {debts: []debt{owes("hold", 9*second)}},
		"the longest wait allowed":                   {debts: []debt{owes("cap", most)}, waitFor: "cap30s"},
		"a longer wait":                              {debts: []debt{owes("cap", 5*second), owes("cap", 31*second)}, want: refused("cap31s", 31*second)},
		"an answer held for too long":                {debts: []debt{owes("hold", 31*second)}, want: refused("hold31s", 31*second)},
		"longer than the class's own limit":          {debts: []debt{owes("soon", 700*time.Millisecond)}, want: refused("soon700ms", retry)},
		"in shadow":                                  {debts: []debt{owes("shadow", 5*second)}, want: told("shadow5s", 5*second, Go)},
		"in shadow, the longest wait allowed":        {debts: []debt{owes("shadow", most)}, want: told("shadow30s", most, Go)},
		"in shadow, a longer wait":                   {debts: []debt{owes("shadow", 31*second)}, want: told("shadow31s", 31*second, Refuse)},
		"a capped key and one in shadow":             {debts: []debt{owes("shadow", 40*second), owes("cap", 31*second)}, want: beside},
		"no room to wait":                            {debts: []debt{owes("cap", 5*second)}, held: 512, want: full},
		"no room, but in shadow":                     {debts: []debt{owes("shadow", 5*second)}, held: 512, want: told("shadow5s", 5*second, Go)},
		"no room, client has an answer held":         {debts: []debt{owes("hold", 500*time.Millisecond)}, held: 512, own: 1, want: Verdict{Action: Refuse, Wait: retry, Key: Key{ID: "hold500ms"}, Reason: ServerFull}},
		"room for one more to wait":                  {debts: []debt{owes("cap", 5*second)}, held: 511, waitFor: "cap5s"},
		"no room, client has no answer held":         {debts: []debt{owes("hold", 500*time.Millisecond)}, held: 512},
		"room for one more answer":                   {debts: []debt{owes("hold", 500*time.Millisecond)}, held: 511, own: 511},
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
