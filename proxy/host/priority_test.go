package host

import (
	"os"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"tempomat/cpuaccount/process"
)

// pretended is a kernel whose processes are numbers. Each has been forked by a server of the
// number below zero.
type pretended struct {
	starts map[int]uint64
	nice   map[int]int
	sets   int
	denies bool
}

func newPretended() *pretended {
	return &pretended{starts: make(map[int]uint64), nice: make(map[int]int)}
}

func (p *pretended) Nice(id process.ID) (int, error) {
	if s, ok := p.starts[id.PID]; !ok || s != id.Start {
		return 0, os.ErrProcessDone
	}
	return p.nice[id.PID], nil
}

func (p *pretended) SetNice(pid, nice int) error {
	if p.denies {
		return syscall.EPERM
	}
	p.sets++
	p.nice[pid] = nice
	return nil
}

func (p *pretended) Parent(id process.ID) (process.ID, bool) {
	return process.ID{PID: -id.PID, Start: 1}, p.starts[id.PID] == id.Start
}

func (*pretended) Alone(int) bool { return true }

// start starts a process of that number, and its server, at a nice value.
func (p *pretended) start(pid, nice int) process.ID {
	p.starts[pid]++
	p.starts[-pid] = 1
	p.nice[pid], p.nice[-pid] = nice, nice
	return process.ID{PID: pid, Start: p.starts[pid]}
}

// TestAnyOrder plays steps, ends, crashes, numbers used again and changes by others, in any
// order. No process is ever above what it had, and afterwards every one has what it had, or what
// somebody else gave it.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := newPretended()
		k := newKeeper(p, idle)
		want := make(map[int]int)
		ids := make(map[int]process.ID)
		holds := make(map[int]*Hold)
		for pid := 1; pid <= 5; pid++ {
			want[pid] = pid - 3
			ids[pid], holds[pid] = p.start(pid, want[pid]), new(Hold)
		}
		end := func(pid int) {
			k.End(holds[pid])
			holds[pid] = new(Hold)
		}
		for range rapid.IntRange(1, 60).Draw(r, "moves") {
			pid := rapid.IntRange(1, 5).Draw(r, "pid")
			switch rapid.IntRange(0, 6).Draw(r, "move") {
			case 0, 1:
				_ = k.Step(holds[pid], ids[pid], rapid.IntRange(0, 4).Draw(r, "step"))
			case 2:
				end(pid)
			case 3: // the proxy is killed, and another one is started
				k = newKeeper(p, idle)
				for pid := range holds {
					holds[pid] = new(Hold)
				}
			case 4:
				want[pid] = rapid.IntRange(-19, idle).Draw(r, "nice")
				ids[pid] = p.start(pid, want[pid])
				end(pid)
			case 5: // by somebody else, to what this one never sets
				want[pid] = p.nice[-pid] - 1
				p.nice[pid] = want[pid]
				end(pid)
			case 6:
				k.Mend(ids[pid])
			}
			for pid, own := range want {
				if p.nice[pid] < own {
					r.Fatalf("process %d is above what it had: %d", pid, p.nice[pid])
				}
			}
		}
		k.Close()
		for pid, own := range want {
			k.closed = false
			if k.Mend(ids[pid]); p.nice[pid] != own {
				r.Fatalf("process %d has %d, want %d", pid, p.nice[pid], own)
			}
		}
	})
}

// TestDenied changes nothing, keeps nothing, and says so.
func TestDenied(t *testing.T) {
	p := newPretended()
	k := newKeeper(p, idle)
	p.denies = true
	h, id := new(Hold), p.start(1, 0)
	if err := k.Step(h, id, 1); !IsForbidden(err) {
		t.Error(err)
	}
	if len(k.changed) != 0 {
		t.Errorf("%d lowered", len(k.changed))
	}
	p.denies = false
	if err := k.Step(h, id, 1); err != nil {
		t.Fatal(err)
	}
	p.denies = true // the right is lost meanwhile: the next proxy mends it
	k.End(h)
	k.Mend(id)
	if c := k.Counts(); c.Failed != 2 || c.Lowered != 0 || p.nice[1] != 5 {
		t.Errorf("nice %d, %+v", p.nice[1], c)
	}
	p.denies = false
	if k.Mend(id); p.nice[1] != 0 || k.Counts().Recovered != 1 {
		t.Errorf("nice %d, %+v", p.nice[1], k.Counts())
	}
}

// TestIsLeft tells what a proxy may have left behind from what somebody else has set.
func TestIsLeft(t *testing.T) {
	for _, c := range []struct {
		now, own int
		want     bool
	}{
		{0, 0, false}, {5, 0, true}, {10, 0, true}, {19, 0, true}, {idle, 0, true}, {7, 0, false}, {-5, 0, false}, {1, 0, false},
		{17, 12, true}, {19, 12, true}, {idle, 12, true}, {18, 12, false}, {19, 19, false}, {idle, 19, true}, {idle, idle, false}, {19, idle, false},
	} {
		if got := isLeft(c.now, c.own); got != c.want {
			t.Errorf("%d of %d: %t", c.now, c.own, got)
		}
	}
}

func TestIsSameProgram(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"apache2", "apache2", true}, {"php-fpm8.2", "php-fpm8.2", true}, {"gunicorn: maste", "gunicorn: worke", true},
		{"systemd", "apache2", false}, {"sh", "php", false}, {"", "", true}, {": a", ": b", false},
	} {
		if got := isSameProgram(c.a, c.b); got != c.want {
			t.Errorf("%q, %q: %t", c.a, c.b, got)
		}
	}
}
