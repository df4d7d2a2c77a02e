package limiter

import (
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestRefuses: a request would be refused if paying one of its keys' debts takes longer than requests may be
// held, and the key's class delays requests.
func TestRefuses(t *testing.T) {
	const most = 30 * second
	p := one(Cooperative, Budget{CPUs: 1, Cap: true})
	p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 1, MaxHold: most / 2}}, ClassInfo{"slash16", Budget{CPUs: 1, Shadow: true}})
	w := newWorld(p)
	owes := func(class, id string, d time.Duration) Key {
		k := Key{Class: class, ID: id}
		w.Raise(w.now, k, w.now.Add(d))
		return k
	}
	little, just, much := owes("slash32", "little", second), owes("slash32", "just", most), owes("slash32", "much", most+second)
	network, shadow := owes("slash24", "much", most/2+second), owes("slash16", "much", most+second)
	for name, x := range map[string]struct {
		keys []Key
		want bool
	}{
		"no keys":                         {nil, false},
		"unknown keys":                    {[]Key{host("x"), networks("y")[0]}, false},
		"a key of no class":               {[]Key{{Class: "invented", ID: "much"}}, false},
		"a key owes little":               {[]Key{little}, false},
		"a key owes as much as allowed":   {[]Key{just}, false},
		"a key owes too much":             {[]Key{much}, true},
		"the second key owes too much":    {[]Key{little, much}, true},
		"more than the class's own limit": {[]Key{network}, true},
		"the class is in shadow":          {[]Key{shadow}, false},
		"more keys than a request has":    {append(make([]Key, MaxKeys), much), false},
		"the last key that is charged":    {append(make([]Key, MaxKeys-1), much), true},
	} {
		testkit.Same(t, x.want, w.Refuses(w.now, x.keys), "%s: refused", name)
	}
	p.Mode = Observe
	if w.SetPolicy(w.now, p); w.Refuses(w.now, []Key{much}) {
		t.Error("in mode observe, a request would be refused")
	}
	p.Mode, p.Classes[0].Budget.Cap = Fair, false
	if w.SetPolicy(w.now, p); w.Refuses(w.now, []Key{much}) {
		t.Error("in a mode in which debt delays no request, a request would be refused for debt")
	}
}
