package limiter

import (
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestRowShowsTheQueue: a row shows how many of a key's requests wait, run and hold a worker, and whether
// the client is known.
func TestRowShowsTheQueue(t *testing.T) {
	const long, short = 300 * time.Millisecond, 20 * time.Millisecond
	p := fair()
	p.Gate.Workers = 4
	p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 1, Burst: time.Hour}})
	w := newWorld(p)
	w.acquaint("hogs", "a")
	for _, size := range []time.Duration{long, long, short, short} {
		hog := Arrival{Client: host("hogs"), Others: networks("hogs/24"), Guess: size, Sure: true}
		w.expectPhase(t, "a hog", w.Arrive(w.now, hog), computing)
	}
	for _, size := range []time.Duration{long, long, short} {
		w.of("a", size)
	}
	w.Arrive(w.now, Arrival{Client: host("a"), Guess: short, Idle: 30 * time.Second, Sure: true})
	w.Arrive(w.now, Arrival{Client: host("stranger"), Guess: short, Sure: true})
	if a, _ := w.Find(w.now, host("a")); a.Client == nil || !a.Client.Known || a.Waiting != 4 || a.Running != 0 || a.Holds != 0 {
		t.Errorf("%+v, %+v", a, a.Client)
	}
	if hogs, _ := w.Find(w.now, host("hogs")); hogs.Holds != 2 || hogs.Running != 4 || hogs.Waiting != 0 {
		t.Errorf("the row of the client whose requests run: %+v", hogs)
	}
	if network, _ := w.Find(w.now, networks("hogs/24")[0]); network.Holds != 2 || network.Running != 4 || network.Client != nil {
		t.Errorf("the network of the running client: %+v", network)
	}
	if stranger, _ := w.Find(w.now, host("stranger")); stranger.Client == nil || stranger.Client.Known || stranger.Waiting != 1 {
		t.Errorf("a stranger: %+v, %+v", stranger, stranger.Client)
	}
}

// TestADumpIsOfTheClassesInForce: Dump yields keys of a removed class only if the caller asks for that class.
func TestADumpIsOfTheClassesInForce(t *testing.T) {
	p := one(Observe, Budget{CPUs: 1})
	p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 1}})
	w := newWorld(p)
	x := w.Arrive(w.now, Arrival{Client: host("a"), Others: networks("net"), Guess: second})
	for gone, want := range map[bool]map[string]int{false: {"": 2, "slash32": 1, "slash24": 1}, true: {"": 1, "slash32": 1, "slash24": 1}} {
		p.Classes = p.Classes[:2]
		if gone {
			p.Classes = p.Classes[:1]
		}
		w.SetPolicy(w.now, p)
		for class, n := range want {
			got := 0
			w.Dump(w.now, class, func(r Row) bool {
				if got++; r.Class != class && class != "" || gone && class == "" && r.Class != "slash32" {
					t.Errorf("asked for class %q, one class removed %t: got a row of %q", class, gone, r.Class)
				}
				return true
			})
			testkit.Same(t, n, got, "class %q, one gone %t: rows", class, gone)
		}
	}
	rows := 0
	p.Classes = p.Classes[:2]
	w.SetPolicy(w.now, p)
	if w.Dump(w.now, "", func(Row) bool { rows++; return false }); rows != 1 {
		t.Errorf("%d rows for a caller that stopped after one", rows)
	}
	testkit.Same(t, p.Classes, w.Classes(), "the current classes")
	w.Leave(w.now, x)
}

// TestFindReturnsOneKey: Find returns the row of a key, and whether the key is known.
func TestFindReturnsOneKey(t *testing.T) {
	w := newWorld(one(Observe, Budget{CPUs: 1}))
	w.done(w.of("a", second), 2*second)
	for client, want := range map[string]bool{"a": true, "b": false} {
		r, found := w.Find(w.now, host(client))
		if found != want || (r.Class == "slash32" && r.ID == client && r.Level == -2) != want || !want && r != (Row{}) {
			t.Errorf("%s is found: %t, %+v", client, found, r)
		}
	}
}

// TestVerdictsAndModesHaveNames: each part of a verdict and each mode has the name that the configuration, logs
// and metrics use.
func TestVerdictsAndModesHaveNames(t *testing.T) {
	for v, want := range map[interface{ String() string }]string{
		Go: "go", Refuse: "refuse", None: "none", Debt: "debt", ClientFull: "client full", ServerFull: "server full", Busy: "busy",
		Cooperative: "cooperative", Cap: "cap", Fair: "fair", Observe: "observe",
	} {
		testkit.Same(t, want, v.String(), "the name of %T %d", v, v)
	}
}
