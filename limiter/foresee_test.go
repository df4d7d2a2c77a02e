package limiter

import (
	"testing"
	"time"
)

// TestWhoWouldBeRefused: who owes for longer than a request is held, to a key whose class has requests wait.
func TestWhoWouldBeRefused(t *testing.T) {
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
		"no keys":                        {nil, false},
		"nobody knows them":              {by("x", "y"), false},
		"of no class":                    {[]Key{{Class: "invented", ID: "much"}}, false},
		"one owes little":                {[]Key{little}, false},
		"one owes as much as may be":     {[]Key{just}, false},
		"one owes more":                  {[]Key{much}, true},
		"the second does":                {[]Key{little, much}, true},
		"by its class's own bound":       {[]Key{network}, true},
		"its class is in shadow":         {[]Key{shadow}, false},
		"more keys than a request has":   {append(make([]Key, MaxKeys), much), false},
		"the last that it is charged to": {append(make([]Key, MaxKeys-1), much), true},
	} {
		if got := w.Refuses(w.now, x.keys); got != x.want {
			t.Errorf("%s: it would be refused: %t", name, got)
		}
	}
	p.Mode = Observe
	if w.SetPolicy(w.now, p); w.Refuses(w.now, []Key{much}) {
		t.Error("where all is only observed, one would be refused")
	}
	p.Mode, p.Classes[0].Budget.Cap = Fair, false
	if w.SetPolicy(w.now, p); w.Refuses(w.now, []Key{much}) {
		t.Error("where debt delays nobody, one would be refused for it")
	}
}
