package connlimit

import (
	"testing"
)

func TestShed(t *testing.T) {
	r := newRoom(t, 100)
	if r.table.Shed() {
		t.Error("an empty table gave something")
	}
	r.enter(3, "192.0.2.1")
	r.busy(r.guests[0])
	for _, want := range []int{1, 2} {
		if !r.table.Shed() {
			t.Fatal("nothing was closed")
		}
		if out := r.closed(); len(out) != 1 || out[0] != want {
			t.Errorf("%v were closed, want %d", out, want)
		}
	}
	if r.table.Shed() || len(r.closed()) != 0 {
		t.Error("a request was cut")
	}
	if s := r.table.Stats(0); s.Open != 1 || s.Shed != 2 {
		t.Errorf("%+v", s)
	}
}

// TestShedCutsNoRequests: busy connections of a load balancer or in a small table are not cut.
func TestShedCutsNoRequests(t *testing.T) {
	for name, c := range map[string]struct {
		most, n int
		from    string
	}{
		"a balancer":    {64, 40, balancer},
		"a small table": {8, 8, "192.0.2.1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t, c.most)
			r.busy(r.enter(c.n, c.from)...)
			if r.table.Shed() {
				t.Errorf("%v were closed", r.closed())
			}
		})
	}
}
