package process

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOwn(t *testing.T) {
	id, err := Read(os.Getpid())
	if err != nil || id.PID != os.Getpid() || id.Start == 0 || !id.Alive() {
		t.Fatalf("%+v, %v", id, err)
	}
	before, err := id.CPU()
	if err != nil {
		t.Fatal(err)
	}
	var self, children unix.Rusage
	for n := 0; ; n++ { // until it has used so much, however long that takes
		if err := unix.Getrusage(unix.RUSAGE_SELF, &self); err != nil {
			t.Fatal(err)
		}
		if used(&self) > before+50*time.Millisecond {
			break
		}
	}
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &children); err != nil {
		t.Fatal(err)
	}
	after, err := id.CPU()
	if off := after - used(&self) - used(&children); err != nil || off < -20*time.Millisecond || off > 60*time.Millisecond {
		t.Errorf("%v, which is %v off, %v", after, off, err)
	}
}

func used(r *unix.Rusage) time.Duration {
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func TestChildren(t *testing.T) {
	id, err := Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	before, err := id.CPU()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), "sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	cost := child.ProcessState.SystemTime() + child.ProcessState.UserTime()
	after, err := id.CPU()
	if err != nil || after-before < cost-2*tick {
		t.Errorf("%v, of which a child that was waited for used %v, %v", after-before, cost, err)
	}
}

func TestEnded(t *testing.T) {
	child := exec.CommandContext(t.Context(), "cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := Read(child.Process.Pid)
	if err != nil || !id.Alive() {
		t.Fatal(id, err)
	}
	_ = in.Close()
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, id.PID, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if id.Alive() {
		t.Error("it has ended, and is alive")
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := id.CPU(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("CPU of what has ended: %v", err)
	}
	if _, err := Read(id.PID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read what has ended: %v", err)
	}
}

func TestOtherOfThatNumber(t *testing.T) {
	id, err := Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	id.Start--
	if id.Alive() {
		t.Error("who had the number before is alive")
	}
	if _, err := id.CPU(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("CPU of who had the number before: %v", err)
	}
}

func TestParseStat(t *testing.T) {
	const rest = " 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 %START 0 0"
	line := func(name, start string) []byte {
		return []byte("12 (" + name + ") S" + strings.Replace(rest, "%START", start, 1) + "\n")
	}
	for name, c := range map[string]struct {
		line []byte
		want stat
		ok   bool
	}{
		"plain":           {line("sh", "77"), stat{'S', 150 * time.Millisecond, 1, 77}, true},
		"name of a liar":  {line("a) R 9 9 (b", "77"), stat{'S', 150 * time.Millisecond, 1, 77}, true},
		"empty":           {nil, stat{}, false},
		"cut":             {line("sh", "77")[:30], stat{}, false},
		"start no number": {line("sh", "x"), stat{}, false},
		"start too large": {line("sh", "99999999999999999999"), stat{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat(c.line)
			if (err == nil) != c.ok || c.ok && got != c.want {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	id, err := Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	u, err := id.Usage()
	cpu, _ := id.CPU()
	if err != nil || u.CPU <= 0 || u.CPU > cpu || u.Queued < 0 || u.Threads < 2 {
		t.Errorf("%+v of %v, %v", u, cpu, err)
	}
}
