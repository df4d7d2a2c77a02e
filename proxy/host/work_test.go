package host

import (
	"math"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/cpuaccount"
	"tempomat/cpuaccount/process"
	"tempomat/internal/testkit"
)

func testID(i int) process.ID { return process.ID{PID: 1<<22 + i, Start: 1} }

func ms(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }

// look returns the process with that number, and its CPU use.
func look(pid int) (id process.ID, u process.Usage, err error) {
	o := newOpened()
	defer o.close()
	return o.look(at(0), pid)
}

// itself returns this process, and its CPU use.
func itself(t *testing.T) (process.ID, process.Usage) {
	t.Helper()
	id, u, err := look(os.Getpid())
	testkit.Must(t, err)
	return id, u
}

// TestBefore estimates the CPU use of a worker before a request that is found 20 ms after its beginning.
func TestBefore(t *testing.T) {
	for name, c := range map[string]struct {
		last, now, estimate, want float64 // ms; a negative last: the worker is new
	}{
		"all since it was seen is the request's": {100, 112, 5, 100},
		"it has used nothing":                    {100, 100, 5, 100},
		"it served others meanwhile":             {100, 200, 5, 195},
		"it was never seen":                      {-1, 200, 5, 195},
		"it is younger than the estimate":        {-1, 2, 5, 0},
		"the estimate is longer than the time":   {-1, 200, 50, 180},
	} {
		w := &worker{}
		if c.last >= 0 {
			w.end(used(c.last))
		}
		got := w.before(used(c.now), ms(20), ms(c.estimate))
		testkit.Same(t, ms(c.want), got.CPU, "%s", name)
	}
}

// TestLook follows requests of this process.
func TestLook(t *testing.T) {
	own, now := itself(t)
	tr := NewTracker(nil, nil, func(error) {})
	tr.claims.begins(at(0), own, process.Usage{CPU: now.CPU - ms(7)}, 1)
	all := []Running{{Number: 1, Began: at(0)}, {Number: 2, Began: at(0)}, {Began: at(0)}}
	tr.Look(at(0.02), all)
	if all[0].Is != WorkRead || all[0].Reading.CPU < ms(7) || all[1].Is != WorkUnknown || all[2].Is != WorkUnknown || all[0].Work.claim == nil || all[0].Work.ID() != own {
		t.Fatalf("%+v", all)
	}
	tr.Look(at(0.04), all)
	testkit.Same(t, WorkSame, all[0].Is, "soon again")
	tr.claims.ends(own, process.Usage{CPU: now.CPU + time.Hour}, 1)
	if r, ok := all[0].Work.End(at(0.1)); !ok || r.CPU != time.Hour+ms(7) {
		t.Errorf("when it says that it has ended: %+v, %t", r, ok)
	}
	tr.claims.begins(at(1), own, now, 3)
	tr.claims.begins(at(1), own, now, 4)
	all = []Running{{Number: 3, Began: at(1), Work: nil}}
	tr.Look(at(1.02), all)
	testkit.Same(t, WorkUnknown, all[0].Is, "it went on to another one before this one was looked at")
}

// TestWhoIsNotAcceptedIsRead: a request uses nothing while its connection is being opened, however long that
// takes. If a worker reports the request later, the request isn't charged for that time, nor for a database's
// use in that time.
func TestWhoIsNotAcceptedIsRead(t *testing.T) {
	own, now := itself(t)
	tr := NewTracker(&Finder{}, nil, func(error) {})
	all := []Running{{Opening: true, Number: 1, Began: at(0)}, {Number: 2, Began: at(0)}}
	tr.Look(at(2), all)
	if r := all[0]; r.Is != WorkRead || r.Work != nil || r.Reading != (cpuaccount.Reading{Waits: true}) || !r.Accepted.Equal(at(2)) {
		t.Errorf("while it is opened: %+v", r)
	}
	testkit.Same(t, WorkUnknown, all[1].Is, "one without a connection")
	tr.claims.begins(at(2), own, now, 1)
	all[0].Opening = false
	tr.Look(at(3), all[:1])
	if all[0].Is != WorkRead || all[0].Reading.Unserved != 2*time.Second {
		t.Errorf("told: %+v", all[0])
	}
	if waited := all[0].Work.newlyBlockedLocked(at(3)); waited > time.Second {
		t.Errorf("it waited for %s since", waited)
	}
}

// TestGoesOnToAnother: a process begins a second request. If it has reported the end of the first, the report
// counts at once, not only when the worker is due to be read. Otherwise neither request is measured.
func TestGoesOnToAnother(t *testing.T) {
	for _, ends := range []bool{true, false} {
		own, now := itself(t)
		tr := NewTracker(nil, nil, func(error) {})
		tr.claims.begins(at(0), own, now, 1)
		all := []Running{{Number: 1, Began: at(0)}}
		tr.Look(at(0.02), all)
		if ends {
			tr.claims.ends(own, now, 1)
		}
		tr.claims.begins(at(0.03), own, now, 2)
		all = append(all, Running{Number: 2, Began: at(0.03)})
		first, second, seen := WorkGone, WorkRead, 0.06
		if !ends {
			first, second, seen = WorkLost, WorkLost, 0.2
		}
		tr.Look(at(seen), all)
		if all[0].Is != first || all[1].Is != second || ends && all[0].Work.worker != all[1].Work.worker {
			t.Errorf("it ends: %t: %+v", ends, all)
		}
		if _, ok := all[0].Work.End(at(0.3)); ok != ends {
			t.Errorf("it ends: %t: the first one is read: %t", ends, ok)
		}
	}
}

// TestEnded: a process ends in the middle of a request.
func TestEnded(t *testing.T) {
	tr := NewTracker(nil, nil, func(error) {})
	tr.claims.begins(at(0), testID(0), used(1), 1)
	all := []Running{{Number: 1, Began: at(0)}}
	tr.Look(at(0.02), all)
	testkit.Same(t, WorkLost, all[0].Is, "the state")
}

// TestDatabaseIsPaid: requests together pay for the CPU time that a database used while any of them waited
// for it, no matter which of them begin, end and wait.
func TestDatabaseIsPaid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &Database{}
		var all, paid time.Duration
		for range rapid.IntRange(20, 60).Draw(t, "intervals") {
			used := ms(float64(rapid.IntRange(0, 100).Draw(t, "used")))
			for range rapid.IntRange(0, 3).Draw(t, "end") {
				paid += d.pay(ms(float64(rapid.IntRange(0, 100).Draw(t, "waited"))))
			}
			waited := ms(float64(rapid.IntRange(1, 800).Draw(t, "waiting")))
			price := d.bill(used, true, waited)
			if price < 0 || math.IsNaN(price) || math.IsInf(price, 0) {
				t.Fatalf("the price is %g", price)
			}
			paid += time.Duration(price * float64(waited))
			all += used
			// If requests that ended paid too much at the last price, later ones pay less.
			if off := paid - all; off < -used-time.Millisecond || off > d.owed()+time.Millisecond {
				t.Fatalf("paid %v of %v, and the pot has %v", paid, all, d.pot)
			}
		}
	})
}

func (d *Database) owed() time.Duration { return max(0, -d.pot) }

// TestNobodyWaits: a database works while no request waits.
func TestNobodyWaits(t *testing.T) {
	d := &Database{}
	for range 100 {
		if price := d.bill(ms(100), true, 0); price != 0 {
			t.Fatalf("the price is %g", price)
		}
	}
	if price := d.bill(0, true, ms(100)); price > 1+1e-9 {
		t.Errorf("who comes then pays %g CPU-seconds for a second, which is more than of one interval", price)
	}
	d.bill(ms(100), true, ms(1)) // computes for itself, and a request has just begun to wait
	if owes := d.pay(ms(90)); owes > ms(100) {
		t.Errorf("a request that then waits for 90 ms owes %v", owes)
	}
	if price := d.bill(0, false, ms(100)); price != 0 || d.pay(ms(100)) != 0 {
		t.Error("a database that is gone is paid")
	}
}
