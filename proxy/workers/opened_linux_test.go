package workers

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tempomat/cpuaccount/process"
)

// child is a process that waits.
func child(t *testing.T) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sleep", "600")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c
}

// processFiles is how many files of processes this one has open.
func processFiles(t *testing.T) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		link, _ := os.Readlink("/proc/self/fd/" + f.Name()) // the directory's own is closed by now
		if strings.HasSuffix(link, "/stat") || strings.HasSuffix(link, "/schedstat") {
			n++
		}
	}
	return n
}

// TestOpened keeps processes open as long as they are looked at, and no more than there is room
// for. Each is read all the same.
func TestOpened(t *testing.T) {
	o := newOpened()
	t.Cleanup(o.close)
	o.most = 2
	var all []*exec.Cmd
	for range 3 {
		all = append(all, child(t))
	}
	for range 2 {
		for _, c := range all {
			h, u, err := o.look(at(0), c.Process.Pid, (*process.Handle).Usage)
			if err != nil || h.ID().PID != c.Process.Pid { // it may have computed nothing yet
				t.Fatalf("%+v, %v", u, err)
			}
			w := &worker{id: h.ID()}
			w.open.Store(h)
			if again, err := w.usage((*process.Handle).Usage); err != nil || again.CPU < u.CPU {
				t.Errorf("%+v after %+v, %v", again, u, err)
			}
		}
		if n := processFiles(t); len(o.byPID) != 2 || n != 2*2 {
			t.Fatalf("%d processes are open, with %d files", len(o.byPID), n)
		}
	}
	ended := all[0].Process.Pid
	h := o.at(at(0), ended)
	_ = all[0].Process.Kill()
	_ = all[0].Wait() // it was killed
	if _, u, err := o.look(at(1), ended, (*process.Handle).Usage); err == nil {
		t.Errorf("what has ended has used %+v", u)
	}
	w := &worker{id: h.ID()}
	w.open.Store(h)
	if u, err := w.usage((*process.Handle).Usage); err == nil {
		t.Errorf("what has ended has used %+v", u)
	}
	o.sweep(at(1))
	if len(o.byPID) != 2 {
		t.Error("what was looked at a moment ago is closed")
	}
	o.sweep(at(0).Add(2 * keepsOpen))
	if n := processFiles(t); len(o.byPID) != 0 || n != 0 {
		t.Errorf("%d processes are open, with %d files", len(o.byPID), n)
	}
	_, _, _ = o.look(at(100), all[1].Process.Pid, (*process.Handle).Usage)
	o.close()
	if n := processFiles(t); n != 0 {
		t.Errorf("%d files are open after the end", n)
	}
}

// TestNotWorthALook reads a process again, for its step, only once it may have used so much.
func TestNotWorthALook(t *testing.T) {
	own, now, err := look(child(t).Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	tr := NewTracker(nil, nil, nil, func(error) {})
	tr.claims.begins(at(0), own, now, 1)
	all := []Running{{Number: 1, Began: at(0)}}
	tr.Look(at(0.02), all)
	if all[0].Is != Read {
		t.Fatalf("%+v", all[0])
	}
	all[0].Due, all[0].StepAt = true, all[0].Reading.CPU+time.Hour
	if tr.Look(at(0.04), all); all[0].Is != Same {
		t.Errorf("a sleeper that cannot have used so much is read: %d", all[0].Is)
	}
	all[0].StepAt = all[0].Reading.CPU
	if tr.Look(at(0.04), all); all[0].Is != Read {
		t.Errorf("one that has used so much is not: %d", all[0].Is)
	}
	if tr.Look(at(0.2), all); all[0].Is != Read {
		t.Error("it is not read now and then")
	}
}

func TestFewDescriptorsKeepFewOpen(t *testing.T) {
	for descriptors, want := range map[uint64]int{0: 0, 127: 0, 1024: 8, 32768: 256, 1 << 63: 256} {
		if got := mostOf(descriptors); got != want {
			t.Errorf("of %d descriptors %d processes are kept open, want %d", descriptors, got, want)
		}
	}
}
