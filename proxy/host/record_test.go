package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"tempomat/cpuaccount/process"
)

// pretended is a kernel whose processes are numbers.
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

func (*pretended) Alone(int) bool { return true }

// start starts a process of that number at a nice value.
func (p *pretended) start(pid, nice int) process.ID {
	p.starts[pid]++
	p.nice[pid] = nice
	return process.ID{PID: pid, Start: p.starts[pid]}
}

func pretend(t *testing.T, path string, p *pretended) *Keeper {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux")
	}
	k, err := open(path, p, idle)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestNumbersUsedAgain lets a thousand processes end that were lowered, and gives their
// numbers to others, which have the same nice value. None of these is touched: not at the
// request's end, not by the next proxy.
func TestNumbersUsedAgain(t *testing.T) {
	p, path := newPretended(), filepath.Join(t.TempDir(), "record")
	k := pretend(t, path, p)
	for i := range 1000 {
		pid, h := 100+i%slots, new(Hold)
		id := p.start(pid, i%3)
		if err := k.Step(h, id, 1+i%Steps); err != nil {
			t.Fatal(err)
		}
		p.start(pid, p.nice[pid])
		was, sets := p.nice[pid], p.sets
		if i%2 == 0 { // the proxy crashes
			if err := k.record.file.close(); err != nil {
				t.Fatal(err)
			}
			k = pretend(t, path, p)
		} else {
			k.End(h)
			k.Flush()
		}
		if p.nice[pid] != was || p.sets != sets {
			t.Fatalf("%d: a process of the same number was touched", i)
		}
		if n := len(k.changed); n != 0 {
			t.Fatalf("%d: %d are taken for lowered", i, n)
		}
	}
	if c := k.Counts(); c.Restored+c.Recovered != 0 {
		t.Errorf("%+v", c)
	}
}

// TestAnyOrder plays steps, ends, crashes, numbers used again and changes by others, in any
// order. Afterwards every process has what it had, or what somebody else gave it.
func TestAnyOrder(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		p, path := newPretended(), filepath.Join(dir, "record")
		k := pretend(t, path, p)
		want := make(map[int]int)
		ids := make(map[int]process.ID)
		holds := make(map[int]*Hold)
		for pid := 1; pid <= 5; pid++ {
			want[pid] = pid - 3
			ids[pid], holds[pid] = p.start(pid, want[pid]), new(Hold)
		}
		for range rapid.IntRange(1, 60).Draw(r, "moves") {
			pid := rapid.IntRange(1, 5).Draw(r, "pid")
			switch rapid.IntRange(0, 5).Draw(r, "move") {
			case 0, 1:
				_ = k.Step(holds[pid], ids[pid], rapid.IntRange(0, 4).Draw(r, "step"))
			case 2:
				k.End(holds[pid])
				holds[pid] = new(Hold)
			case 3:
				if err := k.record.file.close(); err != nil {
					r.Fatal(err)
				}
				k = pretend(t, path, p)
				for pid := range holds {
					holds[pid] = new(Hold)
				}
			case 4:
				ids[pid] = p.start(pid, p.nice[pid])
				want[pid] = p.nice[pid]
				k.End(holds[pid])
				holds[pid] = new(Hold)
			case 5: // by somebody else, to what this one never sets
				want[pid] = -10
				p.nice[pid] = -10
				k.End(holds[pid])
				holds[pid] = new(Hold)
			}
			for pid, own := range want {
				if p.nice[pid] < own {
					r.Fatalf("process %d is above what it had: %d", pid, p.nice[pid])
				}
			}
		}
		if err := k.Close(); err != nil {
			r.Fatal(err)
		}
		for pid, own := range want {
			if p.nice[pid] != own {
				r.Fatalf("process %d has %d, want %d", pid, p.nice[pid], own)
			}
		}
	})
}

// TestFull stops at what the record has room for, and goes on when there is room again.
func TestFull(t *testing.T) {
	p := newPretended()
	k := pretend(t, filepath.Join(t.TempDir(), "record"), p)
	holds := make([]Hold, slots)
	for i := range holds {
		if err := k.Step(&holds[i], p.start(i+1, 0), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Step(new(Hold), p.start(9999, 0), 1); !errors.Is(err, errFull) || p.nice[9999] != 0 {
		t.Errorf("%v, nice %d", err, p.nice[9999])
	}
	k.End(&holds[7])
	k.Flush()
	if err := k.Step(new(Hold), p.start(9999, 0), 1); err != nil {
		t.Error(err)
	}
}

// TestDenied changes nothing, keeps nothing, and says so.
func TestDenied(t *testing.T) {
	p, path := newPretended(), filepath.Join(t.TempDir(), "record")
	k := pretend(t, path, p)
	p.denies = true
	h, id := new(Hold), p.start(1, 0)
	if err := k.Step(h, id, 1); !IsForbidden(err) {
		t.Error(err)
	}
	k.Flush()
	if len(k.changed) != 0 || len(k.free) != slots {
		t.Errorf("%d lowered, %d free", len(k.changed), len(k.free))
	}
	p.denies = false
	if err := k.Step(h, id, 1); err != nil {
		t.Fatal(err)
	}
	p.denies = true // the right is lost meanwhile: it stays in the record
	k.End(h)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	p.denies = false
	if k := pretend(t, path, p); p.nice[1] != 0 || k.Counts().Recovered != 1 {
		t.Errorf("nice %d, %+v", p.nice[1], k.Counts())
	}
}

// TestForeignFiles believes no record that others can have written, is a link, or is of
// another boot.
func TestForeignFiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux")
	}
	p := newPretended()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, err := range map[string]error{
		"open":  os.WriteFile(path("open"), nil, 0o600),
		"chmod": os.Chmod(path("open"), 0o666),
		"long":  os.WriteFile(path("long"), make([]byte, fileSize+1), 0o600),
		"link":  os.Symlink(path("aim"), path("link")),
		"pipe":  syscall.Mkfifo(path("pipe"), 0o600),
		"dir":   os.Mkdir(path("dir"), 0o700),
	} {
		if err != nil {
			t.Fatal(name, err)
		}
	}
	for _, name := range []string{"open", "long", "link", "pipe", "dir", "none/none"} {
		if _, err := open(path(name), p, idle); err == nil {
			t.Errorf("%s is believed", name)
		}
	}
	k := pretend(t, path("boot"), p)
	if err := k.Step(new(Hold), p.start(1, 0), 2); err != nil {
		t.Fatal(err)
	}
	if _, err := k.record.file.WriteAt([]byte("another-boot"), int64(len(magic))); err != nil {
		t.Fatal(err)
	}
	if err := k.record.file.close(); err != nil {
		t.Fatal(err)
	}
	if k := pretend(t, path("boot"), p); p.nice[1] != 10 || k.Counts().Recovered != 0 {
		t.Error("the record of another boot is believed")
	}
	if _, err := headOf("/none", namespaceFile); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := headOf(bootFile, "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// FuzzDecode takes nothing for an entry that would have a priority raised.
func FuzzDecode(f *testing.F) {
	var b [entrySize]byte
	entry{id: process.ID{PID: 7, Start: 9}, own: 0, before: 0, set: 5}.encode(&b)
	f.Add(b[:])
	f.Add(make([]byte, entrySize))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != entrySize {
			return
		}
		if e, ok := decode(b); ok && (e.own > e.set || e.set > idle || e.id.PID <= 0) {
			t.Errorf("%+v", e)
		}
	})
}

// TestPutBack looks what becomes of a process that was to go from 5 to 10 and had 0 of its own,
// by what it has now: the proxy may have crashed before it was changed, or after.
func TestPutBack(t *testing.T) {
	for now, want := range map[int]struct {
		result result
		nice   int
	}{
		10: {restored, 0}, 5: {restored, 0}, 0: {same, 0},
		7: {abandoned, 7}, 19: {abandoned, 19}, -5: {abandoned, -5},
	} {
		p := newPretended()
		id := p.start(1, now)
		if got := putBack(p, entry{id: id, own: 0, before: 5, set: 10}); got != want.result || p.nice[1] != want.nice {
			t.Errorf("from %d: result %d, nice %d; want %d, %d", now, got, p.nice[1], want.result, want.nice)
		}
		id.Start++
		if got := putBack(p, entry{id: id, own: 0, before: 5, set: 10}); got != ended || p.nice[1] != want.nice {
			t.Errorf("of another start: result %d, nice %d", got, p.nice[1])
		}
	}
}

// TestDoesNotRaise: an entry that would have a process go faster than it does is none of ours.
func TestDoesNotRaise(t *testing.T) {
	for set, want := range map[int]bool{-20: false, 0: false, 5: true, 19: true, idle: true, idle + 1: false} {
		var b [entrySize]byte
		entry{id: process.ID{PID: 7, Start: 9}, own: min(0, set), before: min(0, set), set: set}.encode(&b)
		if _, ok := decode(b[:]); ok != want {
			t.Errorf("nice %d: %t", set, ok)
		}
	}
}

// TestOneName: a record that is another file's name, too, is not written.
func TestOneName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record")
	if err := os.WriteFile(path, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, path+".link"); err != nil {
		t.Fatal(err)
	}
	if _, err := RestorePriorities(path + ".link"); err == nil {
		t.Error("it is believed")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "theirs" {
		t.Errorf("it has %q, %v", text, err)
	}
}
