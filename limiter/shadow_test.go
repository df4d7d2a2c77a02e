package limiter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// outcome is the decision about a request of a trace, and its time.
type outcome struct {
	request int
	at      time.Duration
	action  Action
	wait    time.Duration
	reason  Reason
	hold    time.Duration
}

// schedule plays a trace of 90 s that needs more CPU time than two CPUs have, and returns the decisions and
// their times. Each request also has a key of the last class, whether or not the policy has that class.
func schedule(p Policy) (all []outcome, would int) {
	w := newWorld(p)
	r := rand.New(rand.NewPCG(7, 7))
	for n, at := 0, time.Duration(0); at < 90*second; n++ {
		at += time.Duration(r.IntN(int(150 * time.Millisecond)))
		client := r.IntN(12)
		cost := time.Duration(20+r.IntN(600)) * time.Millisecond
		a := Arrival{
			Client: host(fmt.Sprint(client)), Others: networks(fmt.Sprint(client/4), "all"),
			Guess: cost * time.Duration(1+r.IntN(3)) / 2, Sure: r.IntN(4) > 0, Standing: float64(1 + client%3),
			Proven: client%3 > 0,
		}
		w.after(at, func() {
			w.ask(a, func(t *Ticket) {
				v := t.Verdict()
				all = append(all, outcome{n, w.elapsed(), v.Action, v.Wait, v.Reason, 0})
				if v.Would.Key.Class != "" {
					would++
				}
				if v.Shadow { // this delay is only reported
					all[len(all)-1].wait, all[len(all)-1].reason, all[len(all)-1].action = 0, None, Go
				}
				if v.Refused() {
					w.Leave(w.now, t)
					return
				}
				w.after(cost, func() {
					all = append(all, outcome{request: n, at: w.elapsed(), hold: w.Settle(w.now, t, cost)})
					w.Leave(w.now, t)
				})
			})
		})
	}
	w.run(200 * second)
	return all, would
}

// TestShadowChangesNothing: with a class in shadow, each request gets the same decision at the same moment as
// without the class, although the class's keys have the largest possible debt and hold all workers.
func TestShadowChangesNothing(t *testing.T) {
	for _, m := range []Mode{Fair, Cap, Cooperative, Observe} {
		for _, capped := range []bool{false, true} {
			p := fair()
			p.Mode = m
			p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 0.5, Burst: 10 * second, Workers: 0.75}})
			shadowed := p
			shadowed.Classes = append(slices.Clone(p.Classes), ClassInfo{"slash16", Budget{
				CPUs: 0.01, Workers: 0.1, Cap: capped, Shadow: true, MaxHold: second,
			}})
			want, _ := schedule(p)
			got, would := schedule(shadowed)
			if !slices.Equal(got, want) {
				for i := range min(len(got), len(want)) {
					if got[i] != want[i] {
						t.Errorf("%s, capped %t: the first difference of %d: %+v, want %+v", m, capped, len(want), got[i], want[i])
						break
					}
				}
			}
			if acts := m != Observe && (capped || m != Fair); (would > 0) != acts || len(want) < 1000 {
				t.Errorf("%s, capped %t: %d of %d would have been delayed or refused", m, capped, would, len(want))
			}
			shadowed.Classes[2].Budget.Shadow = false
			if acting, _ := schedule(shadowed); slices.Equal(acting, want) && m != Observe {
				t.Errorf("%s, capped %t: the class changes nothing outside shadow either, so the trace proves nothing", m, capped)
			}
		}
	}
}

// TestShadowOfTheClient: if the first class is in shadow, it delays no request. A person's standing still
// counts at the gate, although the class itself treats all clients alike.
func TestShadowOfTheClient(t *testing.T) {
	p := fair()
	p.Classes[0].Budget = Budget{CPUs: 0.2, Cap: true, Shadow: true, MaxHold: second, Workers: 0.1}
	w := newWorld(p)
	w.Debit(w.now, Charge{Key: host("a"), Cost: 20 * second})
	x := w.Arrive(w.now, Arrival{Client: host("a"), Guess: second, Sure: true, Standing: 4, Proven: true})
	v := x.Verdict()
	if v.Refused() || v.Would.Action != Refuse || v.Would.Key != host("a") || v.Would.Wait != 100*second {
		t.Errorf("%+v", v)
	}
	testkit.Same(t, 4*0.2/2, x.flow.share, "the client's share")
	testkit.Same(t, baseMultiplier, v.CostMultiplier, "the request's cost multiplier")
}
