package limiter

import (
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestForgive: Forgive clears the debt and the lead at the gate, so a request that waits for the debt starts.
func TestForgive(t *testing.T) {
	w := newWorld(one(Cap, Budget{CPUs: 0.1, Burst: 0}))
	w.done(w.of("a", time.Second), 2*time.Second)
	x := w.of("a", time.Second)
	if testkit.Ready(x.Decided()) {
		t.Fatal("the request starts despite a debt")
	}
	testkit.Ready(w.Due()) // requested when the request began to wait
	if got, known := w.Forgive(w.now, host("a")); !known || got != 2 || !testkit.Ready(w.Due()) {
		t.Errorf("forgave %g, known %t; want 2, and that an Advance is requested", got, known)
	}
	w.advance()
	if !testkit.Ready(x.Decided()) {
		t.Error("the request still waits")
	}
	if got, known := w.Forgive(w.now, host("b")); known || got != 0 {
		t.Errorf("an unknown key: forgave %g, known %t", got, known)
	}

	w = siegeOf("hogs", "a")
	for range 20 {
		w.done(w.heavy("a"), 400*time.Millisecond)
		w.light("hogs")
	}
	w.heavy("hogs")
	if r, _ := w.Find(w.now, host("a")); r.Client.Lead == 0 {
		t.Fatal("the client is not ahead")
	}
	w.Forgive(w.now, host("a"))
	if r, _ := w.Find(w.now, host("a")); r.Client.Lead != 0 {
		t.Errorf("the client is still %g CPU-seconds ahead", r.Client.Lead)
	}
}

// TestForgivingAnAddress: every client of the address that is ahead of the clock moves back to the clock,
// whatever its User-Agent. No client moves forward.
func TestForgivingAnAddress(t *testing.T) {
	at := func(virtualTime float64) *client {
		return &client{site: &site{clock: clock{systemVirtualTime: 10}}, flow: flow{virtualTime: virtualTime}}
	}
	for was, want := range map[float64]float64{25: 10, 10: 10, 3: 3} {
		alone, agent, elsewhere := at(was), at(was), at(was)
		address := at(was)
		address.faces, address.elsewhere = &[faces]*client{5: agent}, elsewhere
		alone.forgive()
		newGate(nil).forgive(address)
		for what, c := range map[string]*client{"alone": alone, "of several User-Agents": address, "one of these": agent, "at another site": elsewhere} {
			testkit.Same(t, want, c.virtualTime, "%s, at %g: its virtual time when forgiven", what, was)
		}
	}
}

// TestWaitingRequestsAreCounted: a key's row counts requests at the gate as waiting, with their wait so far.
func TestWaitingRequestsAreCounted(t *testing.T) {
	w := siegeOf("hogs", "a")
	w.run(60 * 24 * time.Hour) // more milliseconds than the counter can hold
	running := []*Ticket{w.heavy("hogs"), w.heavy("hogs")}
	xs := []*Ticket{w.heavy("a"), w.heavy("a"), w.heavy("a")}
	w.run(4 * time.Second)
	r, _ := w.Find(w.now, host("a"))
	if want := 4 * (1 - 0.9*0.9*0.9); r.Waiting != 3 || r.Running != 0 || r.Wait < want-0.01 || r.Wait > want+0.01 {
		t.Errorf("%d wait, %d run, for %.2f s on average; want 3, 0, %.2f s", r.Waiting, r.Running, r.Wait, want)
	}
	w.Leave(w.now, xs[2])
	w.done(running[0], 400*time.Millisecond)
	if r, _ := w.Find(w.now, host("a")); r.Waiting != 1 || r.Running != 1 {
		t.Errorf("after one request left and another started: %d wait, %d run", r.Waiting, r.Running)
	}
}
