package process

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tempomat/internal/testkit"
)

// usage returns the CPU time that a process has used.
func usage(t *testing.T, pid int) Usage {
	t.Helper()
	h, err := Open(pid)
	testkit.Must(t, err)
	defer h.Close()
	u, err := h.Usage()
	testkit.Must(t, err)
	return u
}

// TestOwn compares the usage with the kernel's report to a process about itself and its children.
func TestOwn(t *testing.T) {
	before := usage(t, os.Getpid())
	child := exec.CommandContext(t.Context(), "sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	testkit.Must(t, child.Run())
	var self, children unix.Rusage
	testkit.Must(t, errors.Join(unix.Getrusage(unix.RUSAGE_SELF, &self), unix.Getrusage(unix.RUSAGE_CHILDREN, &children)))
	after := usage(t, os.Getpid())
	if off := after.CPU - used(&self) - used(&children); off < -20*time.Millisecond || off > 60*time.Millisecond || after.Queued < 0 || after.Threads < 2 {
		t.Errorf("%+v, which is %v off", after, off)
	}
	if cost := child.ProcessState.SystemTime() + child.ProcessState.UserTime(); after.CPU-before.CPU < cost-2*tick {
		t.Errorf("%v, of which a child that was waited for used %v", after.CPU-before.CPU, cost)
	}
}

func used(r *unix.Rusage) time.Duration {
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// TestEnded: a process that has ended isn't alive, and after it has been waited for, it doesn't exist.
func TestEnded(t *testing.T) {
	child := exec.CommandContext(t.Context(), "cat")
	in, _ := startPiped(t, child)
	h, err := Open(child.Process.Pid)
	testkit.Must(t, err)
	defer h.Close()
	id := h.ID()
	if !id.Alive() {
		t.Fatal(id)
	}
	earlier := id
	if earlier.Start--; earlier.Alive() {
		t.Error("the process that had the number earlier is alive")
	}
	_ = in.Close()
	var info unix.Siginfo
	testkit.Must(t, unix.Waitid(unix.P_PID, id.PID, &info, unix.WEXITED|unix.WNOWAIT, nil))
	if id.Alive() {
		t.Error("it has ended, but is alive")
	}
	testkit.Must(t, child.Wait())
	if _, err := Open(id.PID); !errors.Is(err, fs.ErrNotExist) || id.Alive() {
		t.Errorf("opened after the process has ended: %v", err)
	}
}

func TestParseStat(t *testing.T) {
	const rest = " 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 -5 3 0 %START 0 0"
	line := func(name, start string) string {
		return "12 (" + name + ") S" + strings.Replace(rest, "%START", start, 1) + "\n"
	}
	want := Stat{PID: 12, Parent: 1, State: 'S', Own: 110 * time.Millisecond, Children: 150 * time.Millisecond, Nice: -5, Threads: 3, Start: 77}
	for text, name := range map[string]string{
		line("sh", "77"): "sh", line("a) R 9 9 (b", "77"): "a) R 9 9 (b",
		"": "", ")(": "", "(sh) S 1": "", line("sh", "77")[:30]: "", line("sh", "x"): "", line("sh", "99999999999999999999"): "",
		strings.Replace(line("sh", "77"), " 6 7 ", " 6 -7 ", 1): "",
	} {
		got, err := ParseStat([]byte(text))
		if (err == nil) != (name != "") || string(got.Name) != name && err == nil {
			t.Errorf("%q is parsed as %+v of %q, %v", text, got, got.Name, err)
		}
		if got.Name = nil; err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
