package limiter

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// named makes a request of a robot that is known only by the name that it sends.
func named(name string) Arrival {
	return Arrival{
		Client: Key{Class: "session", ID: name}, Within: Key{Class: "session", ID: "(all)"},
		Pooled: true, Guess: time.Second, Sure: true,
	}
}

// TestPoolWeighsAsOne: however many names clients invent, all of them together get as much as one client.
func TestPoolWeighsAsOne(t *testing.T) {
	for _, names := range []int{1, 2, 20, 60} {
		w := homes("home")
		used := map[string]float64{}
		for i := range names {
			w.wants("robots", 3, named(fmt.Sprint("robot ", i)), used)
		}
		w.wants("home", 3, inSession("home", 0, 1, 1), used)
		w.run(480 * time.Second)
		if got := used["robots"] / used["home"]; math.Abs(got-1) > 0.1 {
			t.Errorf("%d names got %.2f times as much as one client", names, got)
		}
	}
}

// TestPoolIsNoStranger: invented names don't use the strangers' turn.
func TestPoolIsNoStranger(t *testing.T) {
	w := homes()
	if w.Arrive(w.now, named("robot")).Stranger() {
		t.Error("the request takes the strangers' turn")
	}
}

// TestPoolOwesAsOne: a debt of one invented name counts in full for all. A network's debt counts only in part.
func TestPoolOwesAsOne(t *testing.T) {
	p := fair()
	p.Classes = []ClassInfo{{"session", p.Classes[0].Budget}, {"slash32", p.Classes[0].Budget}}
	w := newWorld(p)
	w.done(w.Arrive(w.now, named("robot 1")), time.Hour)
	w.done(w.Arrive(w.now, Arrival{Client: host("crawler"), Guess: time.Second}), time.Hour)
	price := func(name string, a Arrival, want float64) {
		t.Helper()
		x := w.Arrive(w.now, a)
		if got := float64(x.Verdict().CostMultiplier); math.Abs(got-want) > 0.01 {
			t.Errorf("%s counts for %.2f times its cost, want %.2f", name, got, want)
		}
		w.Leave(w.now, x)
	}
	price("another invented name", named("robot 2"), baseMultiplier+debtMultiplier)
	beside := named("robot 3")
	beside.Within, beside.Others = Key{Class: "session", ID: "(others)"}, []Key{host("crawler")}
	price("a client of another pool, from a network in debt", beside, baseMultiplier+inheritedDebt*debtMultiplier)
}
