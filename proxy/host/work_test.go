package host

import (
	"math"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/cpuaccount"
	"tempomat/cpuaccount/process"
)

func testID(i int) process.ID { return process.ID{PID: 1<<22 + i, Start: 1} }

func ms(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }

// look returns the process that has that number now, and what it has used.
func look(pid int) (id process.ID, u process.Usage, err error) {
	o := newOpened()
	defer o.close()
	return o.look(at(0), pid)
}

// TestBefore is what a worker had used when a request began that is found 20 ms later.
func TestBefore(t *testing.T) {
	for name, c := range map[string]struct {
		last, now, estimate, want float64 // ms; a last that is negative: it was never seen
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
		if got.CPU != ms(c.want) {
			t.Errorf("%s: %v, want %g ms", name, got.CPU, c.want)
		}
	}
}

// TestLook follows requests of this process.
func TestLook(t *testing.T) {
	own, now, err := look(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	tr := NewTracker(nil, nil, nil, func(error) {})
	tr.claims.begins(at(0), own, process.Usage{CPU: now.CPU - ms(7)}, 1)
	all := []Running{{Number: 1, Began: at(0)}, {Number: 2, Began: at(0)}, {Began: at(0)}}
	tr.Look(at(0.02), all)
	if all[0].Is != WorkRead || all[0].Reading.CPU < ms(7) || all[1].Is != WorkUnknown || all[2].Is != WorkUnknown || all[0].Work.claim == nil || all[0].Work.ID() != own {
		t.Fatalf("%+v", all)
	}
	tr.Look(at(0.04), all)
	if all[0].Is != WorkSame {
		t.Errorf("soon again: %+v", all[0])
	}
	tr.claims.ends(own, process.Usage{CPU: now.CPU + time.Hour}, 1)
	if r, ok := all[0].Work.End(at(0.1)); !ok || r.CPU != time.Hour+ms(7) {
		t.Errorf("when it says that it has ended: %+v, %t", r, ok)
	}
	tr.claims.begins(at(1), own, now, 3)
	tr.claims.begins(at(1), own, now, 4)
	all = []Running{{Number: 3, Began: at(1), Work: nil}}
	tr.Look(at(1.02), all)
	if all[0].Is != WorkUnknown {
		t.Errorf("it went on to another one before this one was looked at: %+v", all[0])
	}
}

// TestWhoIsNotAcceptedIsRead: while its connection is being opened a request has used nothing, whatever time passes. The worker
// that tells of it then is not charged for that time, nor does it pay a database's for it.
func TestWhoIsNotAcceptedIsRead(t *testing.T) {
	own, now, err := look(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	tr := NewTracker(&Finder{}, nil, nil, func(error) {})
	all := []Running{{Opening: true, Number: 1, Began: at(0)}, {Number: 2, Began: at(0)}}
	tr.Look(at(2), all)
	if r := all[0]; r.Is != WorkRead || r.Work != nil || r.Reading != (cpuaccount.Reading{Waits: true}) || !r.Accepted.Equal(at(2)) {
		t.Errorf("while it is opened: %+v", r)
	}
	if all[1].Is != WorkUnknown {
		t.Errorf("one without a connection: %+v", all[1])
	}
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

// TestServesTwo has a process begin a second request while the first one runs.
func TestServesTwo(t *testing.T) {
	own, now, err := look(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	tr := NewTracker(nil, nil, nil, func(error) {})
	tr.claims.begins(at(0), own, now, 1)
	all := []Running{{Number: 1, Began: at(0)}}
	tr.Look(at(0.02), all)
	tr.claims.begins(at(0.03), own, now, 2)
	all = append(all, Running{Number: 2, Began: at(0.03)})
	tr.Look(at(0.2), all)
	if all[0].Is != WorkLost {
		t.Errorf("the first one's process serves another: %+v", all[0])
	}
	if _, ok := all[0].Work.End(at(0.3)); ok {
		t.Error("it is read all the same")
	}
}

// TestEnded has a process end in the middle of a request.
func TestEnded(t *testing.T) {
	tr := NewTracker(nil, nil, nil, func(error) {})
	tr.claims.begins(at(0), testID(0), used(1), 1)
	all := []Running{{Number: 1, Began: at(0)}}
	tr.Look(at(0.02), all)
	if all[0].Is != WorkLost {
		t.Errorf("%+v", all[0])
	}
}

// TestDatabaseIsPaid checks that requests together pay what a database used while any waited
// for it, whoever comes, ends and waits.
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
			// What those who end pay too much at the price of before, the next ones need not pay.
			if off := paid - all; off < -used-time.Millisecond || off > d.owed()+time.Millisecond {
				t.Fatalf("paid %v of %v, and the pot has %v", paid, all, d.pot)
			}
		}
	})
}

func (d *Database) owed() time.Duration { return max(0, -d.pot) }

// TestNobodyWaits has a database work for nobody.
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
	if price := d.bill(0, false, ms(100)); price != 0 || d.pay(ms(100)) != 0 {
		t.Error("a database that is gone is paid")
	}
}

func TestDatabaseGroup(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenDatabase(dir); err == nil {
		t.Error("a directory without cpu.stat is a cgroup")
	}
	write("cgroup.procs", "12\n13\n")
	g := &Database{cgroup: dir}
	for i, c := range []struct {
		text string
		used time.Duration
		ok   bool
	}{
		{"usage_usec 1000\nuser_usec 5\n", 0, false},
		{"usage_usec 3000\nuser_usec 5\n", ms(2), true},
		{"usage_usec 3000\n", 0, true},
		{"usage_usec 1000\n", 0, false}, // it began anew
		{"usage_usec 2000\n", ms(1), true},
		{"nothing\n", 0, false},
		{"usage_usec 9000\n", 0, false},
	} {
		write("cpu.stat", c.text)
		if used, ok := g.used(at(0)); ok != c.ok || ok && used != c.used {
			t.Errorf("reading %d: %v, %t; want %v, %t", i, used, ok, c.used, c.ok)
		}
		if i == 0 && len(g.pids(at(0))) != 2 {
			t.Errorf("its processes are %v", g.pids(at(0)))
		}
	}
}
