package host

import (
	"os"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"tempomat/cpuaccount/process"
	"tempomat/internal/testkit"
)

// pretended is a kernel whose processes are numbers. The server that forked process n is -n.
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

// start starts a process with that number, and its server, at a nice value.
func (p *pretended) start(pid, nice int) process.ID {
	p.starts[pid]++
	p.starts[-pid] = 1
	p.nice[pid], p.nice[-pid] = nice, nice
	return process.ID{PID: pid, Start: p.starts[pid]}
}

// TestAnyOrder plays steps, ends, crashes, reused process numbers and changes by other programs, in any order.
// No process ever has a higher priority than its own. Afterwards each has its own priority, or the one that
// another program gave it.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := newPretended()
		k := newKeeper(p)
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
			case 3: // the proxy is killed and another one starts
				k = newKeeper(p)
				for pid := range holds {
					holds[pid] = new(Hold)
				}
			case 4:
				want[pid] = rapid.IntRange(-19, idle).Draw(r, "nice")
				ids[pid] = p.start(pid, want[pid])
				end(pid)
			case 5: // another program sets a priority that tempomat never sets
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

// TestDenied checks that a Step that isn't allowed returns the error, and neither changes nor keeps
// anything.
func TestDenied(t *testing.T) {
	p := newPretended()
	k := newKeeper(p)
	p.denies = true
	h, id := new(Hold), p.start(1, 0)
	if err := k.Step(h, id, 1); !IsForbidden(err) {
		t.Error(err)
	}
	testkit.Same(t, 0, len(k.changed), "processes lowered")
	p.denies = false
	testkit.Must(t, k.Step(h, id, 1))
	p.denies = true // the right is lost in between, so the next proxy must restore the priority
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

// TestIsLeft: priorities that a proxy left behind differ from those that another program has set.
func TestIsLeft(t *testing.T) {
	for _, c := range []struct {
		now, own int
		want     bool
	}{
		{0, 0, false}, {5, 0, true}, {10, 0, true}, {19, 0, false}, {idle, 0, true}, {7, 0, false}, {-5, 0, false}, {1, 0, false},
		{17, 12, true}, {19, 12, true}, {idle, 12, true}, {18, 12, false}, {19, 19, false}, {idle, 19, true}, {idle, idle, false}, {19, idle, false},
	} {
		testkit.Same(t, c.want, isLeft(c.now, c.own), "%d of %d", c.now, c.own)
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
		testkit.Same(t, c.want, isSameProgram(c.a, c.b), "%q, %q", c.a, c.b)
	}
}
