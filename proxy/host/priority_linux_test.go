package host

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"tempomat/cpuaccount/process"
)

// needsRight skips where priorities cannot be put back. In CI, which is root, they can.
func needsRight(t *testing.T) {
	t.Helper()
	if _, err := probe(); err != nil {
		if os.Getenv("CI") != "" && os.Geteuid() == 0 {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// startWorker starts a process that burns CPU, at that nice value, until the test ends.
func startWorker(t *testing.T, nice int) process.ID {
	t.Helper()
	burner := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
	if err := burner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = burner.Process.Kill()
		_ = burner.Wait()
	})
	if err := unix.Setpriority(unix.PRIO_PROCESS, burner.Process.Pid, nice); err != nil {
		t.Fatal(err)
	}
	id, err := process.Read(burner.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func wantNice(t *testing.T, id process.ID, want int) {
	t.Helper()
	if got, err := (system{}).Nice(id); err != nil || got != want {
		t.Errorf("process %d has nice %d, %v; want %d", id.PID, got, err, want)
	}
}

func openedKeeper(t *testing.T, path string) *Keeper {
	t.Helper()
	k, err := OpenKeeper(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return k
}

// TestDownAndBack lowers processes that had different priorities, and puts them back.
func TestDownAndBack(t *testing.T) {
	needsRight(t)
	k := openedKeeper(t, filepath.Join(t.TempDir(), "record"))
	for _, own := range []int{-3, 0, 4, 12, 19} {
		id, h := startWorker(t, own), new(Hold)
		for step, want := range []int{own, min(own+5, 19), min(own+10, 19), idle} {
			if err := k.Step(h, id, step); err != nil {
				t.Fatal(err)
			}
			wantNice(t, id, want)
		}
		if err := k.Step(h, id, 1); err != nil {
			t.Fatal(err)
		}
		wantNice(t, id, idle) // never up while the request goes on
		k.End(h)
		wantNice(t, id, own)
		if err := k.Step(h, id, 3); err != nil {
			t.Fatal(err)
		}
		wantNice(t, id, own) // it is over
	}
	k.Flush()
	if c := k.Counts(); c.Lowered != 0 || c.Restored != 5 || len(k.free) != slots {
		t.Errorf("%+v, %d free slots", c, len(k.free))
	}
}

// TestSomebodyElse has an administrator change a priority meanwhile: that stays.
func TestSomebodyElse(t *testing.T) {
	needsRight(t)
	k := openedKeeper(t, filepath.Join(t.TempDir(), "record"))
	for _, again := range []bool{false, true} {
		id, h := startWorker(t, 0), new(Hold)
		if err := k.Step(h, id, 1); err != nil {
			t.Fatal(err)
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, id.PID, 7); err != nil {
			t.Fatal(err)
		}
		if again {
			if err := k.Step(h, id, 2); !errors.Is(err, errChanged) {
				t.Error(err)
			}
		}
		k.End(h)
		wantNice(t, id, 7)
	}
	k.Flush()
	if c := k.Counts(); c.Abandoned != 2 || c.Restored != 0 || len(k.free) != slots {
		t.Errorf("%+v, %d free slots", c, len(k.free))
	}
}

// TestShared leaves a process alone that serves two requests, or computes with threads:
// this one does.
func TestShared(t *testing.T) {
	needsRight(t)
	k := openedKeeper(t, filepath.Join(t.TempDir(), "record"))
	id := startWorker(t, 0)
	var one, other Hold
	if err := k.Step(&one, id, 1); err != nil {
		t.Fatal(err)
	}
	if err := k.Step(&other, id, 3); !errors.Is(err, ErrShared) {
		t.Error(err)
	}
	k.End(&other)
	wantNice(t, id, 5)
	k.End(&one)
	wantNice(t, id, 0)
	own, err := process.Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Step(new(Hold), own, 1); !errors.Is(err, ErrShared) {
		t.Errorf("a program of several threads: %v", err)
	}
}

// TestReloads puts all back a hundred times while requests go on.
func TestReloads(t *testing.T) {
	needsRight(t)
	k := openedKeeper(t, filepath.Join(t.TempDir(), "record"))
	ids := []process.ID{startWorker(t, 0), startWorker(t, 2)}
	holds := make([]Hold, len(ids))
	for range 100 {
		for i, id := range ids {
			if err := k.Step(&holds[i], id, 3); err != nil {
				t.Fatal(err)
			}
			wantNice(t, id, idle)
		}
		k.Restore()
		wantNice(t, ids[0], 0)
		wantNice(t, ids[1], 2)
	}
	k.Flush()
	if len(k.free) != slots {
		t.Errorf("%d free slots", len(k.free))
	}
}

// crashVariable has this program lower processes by a record, and wait to be killed.
const crashVariable = "PRIORITY_TEST_RECORD"

func lowerAndWait(path string, pids []string) {
	k, err := OpenKeeper(path)
	for i, text := range pids {
		pid, _ := strconv.Atoi(text)
		id, e := process.Read(pid)
		err = errors.Join(err, e, k.Step(new(Hold), id, 1+i%Steps))
	}
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
	println("lowered")
	select {}
}

// crash has another process lower processes, and kills it.
func crash(t *testing.T, path string, ids ...process.ID) {
	t.Helper()
	proxy := crashing(t, path, ids...)
	if err := proxy.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = proxy.Wait()
}

func crashing(t *testing.T, path string, ids ...process.ID) *exec.Cmd {
	t.Helper()
	proxy := exec.CommandContext(t.Context(), os.Args[0])
	for _, id := range ids {
		proxy.Args = append(proxy.Args, strconv.Itoa(id.PID))
	}
	proxy.Env = append(os.Environ(), crashVariable+"="+path)
	out, err := proxy.StderrPipe()
	if err = errors.Join(err, proxy.Start()); err != nil {
		t.Fatal(err)
	}
	var line [8]byte
	if _, err := out.Read(line[:]); err != nil || string(line[:7]) != "lowered" {
		t.Fatalf("%q, %v", line, err)
	}
	return proxy
}

// TestCrash kills a proxy that has lowered processes. They have what they had after the
// next start, and after Restore; but who was changed by somebody else has that.
func TestCrash(t *testing.T) {
	needsRight(t)
	path := filepath.Join(t.TempDir(), "record")
	ids := []process.ID{startWorker(t, 0), startWorker(t, 3), startWorker(t, 0), startWorker(t, 0)}
	want := []int{0, 3, 0, 1}
	for name, restore := range map[string]func() Left{
		"next start": func() Left {
			k := openedKeeper(t, path)
			left := Left{Restored: int(k.Counts().Recovered), Abandoned: 1}
			if err := k.Close(); err != nil {
				t.Error(err)
			}
			return left
		},
		"restore": func() Left {
			left, err := RestorePriorities(path)
			if err != nil {
				t.Error(err)
			}
			return left
		},
	} {
		if err := unix.Setpriority(unix.PRIO_PROCESS, ids[3].PID, 0); err != nil {
			t.Fatal(err)
		}
		crash(t, path, ids...)
		wantNice(t, ids[1], 13)
		if err := unix.Setpriority(unix.PRIO_PROCESS, ids[3].PID, 1); err != nil {
			t.Fatal(err)
		}
		if left := restore(); left != (Left{Restored: 3, Abandoned: 1}) {
			t.Errorf("%s: %+v", name, left)
		}
		for i, id := range ids {
			wantNice(t, id, want[i])
		}
		if left, err := RestorePriorities(path); left != (Left{}) || err != nil {
			t.Errorf("%s: twice: %+v, %v", name, left, err)
		}
	}
}

// TestBeside has a proxy start while another one runs that has lowered a process: it is left
// to that one, until that has crashed.
func TestBeside(t *testing.T) {
	needsRight(t)
	path := filepath.Join(t.TempDir(), "record")
	id := startWorker(t, 0)
	before := crashing(t, path, id)
	k := openedKeeper(t, path)
	if left, err := RestorePriorities(path); err != nil || left != (Left{Busy: 2}) {
		t.Errorf("%+v, %v", left, err)
	}
	if err := k.Step(new(Hold), id, 3); !errors.Is(err, ErrShared) {
		t.Error(err)
	}
	wantNice(t, id, 5)
	_ = before.Process.Kill()
	_ = before.Wait()
	k.Restore()
	wantNice(t, id, 0)
	if err := k.Step(new(Hold), id, 3); err != nil {
		t.Error(err)
	}
	wantNice(t, id, idle)
}

// TestThreadsFollow: a thread that is started while its process is low is put back with it.
func TestThreadsFollow(t *testing.T) {
	needsRight(t)
	pid, own := os.Getpid(), niceOf(t, os.Getpid())
	defer func() { _ = system{}.SetNice(pid, own) }()
	if err := (system{}).SetNice(pid, own+5); err != nil {
		t.Fatal(err)
	}
	started, end, ended := make(chan int), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // and so the thread ends with it
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, own+5)
		started <- unix.Gettid()
		<-end
	}()
	tid := <-started
	if err := (system{}).SetNice(pid, own); err != nil {
		t.Fatal(err)
	}
	if got := niceOf(t, tid); got != own {
		t.Errorf("a thread has nice %d, want %d", got, own)
	}
	close(end)
	<-ended
}

func niceOf(t *testing.T, tid int) int {
	t.Helper()
	x, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
	if err != nil {
		t.Fatal(err)
	}
	return 20 - x
}

// TestOtherPolicies: who has a process be scheduled in another way than by nice values has it stay
// so, and an idle one can go no lower.
func TestOtherPolicies(t *testing.T) {
	needsRight(t)
	k := openedKeeper(t, filepath.Join(t.TempDir(), "record"))
	for policy, want := range map[int]error{unix.SCHED_BATCH: errPolicy, unix.SCHED_IDLE: nil} {
		id := startWorker(t, 3)
		if err := setPolicy(id.PID, policy); err != nil {
			t.Fatal(err)
		}
		h := new(Hold)
		for step := 1; step <= Steps; step++ {
			if err := k.Step(h, id, step); !errors.Is(err, want) {
				t.Errorf("policy %d: %v", policy, err)
			}
		}
		k.End(h)
		if got := policyOf(id.PID); got != policy || niceOf(t, id.PID) != 3 {
			t.Errorf("policy %d, nice 3 became policy %d, nice %d", policy, got, niceOf(t, id.PID))
		}
	}
}

// TestNiceOnly has steps end at the lowest nice value where the system keeps SCHED_IDLE out.
func TestNiceOnly(t *testing.T) {
	k, err := open(filepath.Join(t.TempDir(), "record"), newPretended(), lowestNice)
	if err != nil {
		t.Fatal(err)
	}
	for own, want := range map[int][Steps]int{0: {5, 10, 19}, 12: {17, 19, 19}, -5: {0, 5, 19}} {
		for i, level := range want {
			if got := k.level(own, i+1); got != level {
				t.Errorf("%d, step %d: %d, want %d", own, i+1, got, level)
			}
		}
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}
