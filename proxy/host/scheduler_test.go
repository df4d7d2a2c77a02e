package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
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

// startWorker has a server fork a worker that burns CPU, both at that nice value, until the test
// ends.
func startWorker(t *testing.T, nice int) process.ID {
	t.Helper()
	server := exec.CommandContext(t.Context(), "sh", "-c", "read start; (ulimit -t 60; while :; do :; done) & echo $!; wait")
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err = errors.Join(err, server.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-server.Process.Pid, syscall.SIGKILL)
		_ = server.Wait()
	})
	if err := unix.Setpriority(unix.PRIO_PROCESS, server.Process.Pid, nice); err != nil {
		t.Fatal(err)
	}
	var pid int
	_, err = in.Write([]byte("\n"))
	if _, e := fmt.Fscan(out, &pid); err != nil || e != nil {
		t.Fatal(err, e)
	}
	id, err := process.Read(pid)
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

func openedKeeper(t *testing.T) *Keeper {
	t.Helper()
	k, err := OpenKeeper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// TestDownAndBack lowers processes that had different priorities, and puts them back.
func TestDownAndBack(t *testing.T) {
	needsRight(t)
	k := openedKeeper(t)
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
	if c := k.Counts(); c.Lowered != 0 || c.Restored != 5 {
		t.Errorf("%+v", c)
	}
}

// TestShared leaves a process alone that serves two requests, or computes with threads:
// this one does.
func TestShared(t *testing.T) {
	needsRight(t)
	k := openedKeeper(t)
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

// crashVariable has this program lower processes, and wait to be killed.
const crashVariable = "PRIORITY_TEST_CRASH"

func lowerAndWait(pids []string) {
	k, err := OpenKeeper()
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
func crash(t *testing.T, ids ...process.ID) {
	t.Helper()
	proxy := exec.CommandContext(t.Context(), os.Args[0])
	for _, id := range ids {
		proxy.Args = append(proxy.Args, strconv.Itoa(id.PID))
	}
	proxy.Env = append(os.Environ(), crashVariable+"=1")
	out, err := proxy.StderrPipe()
	if err = errors.Join(err, proxy.Start()); err != nil {
		t.Fatal(err)
	}
	var line [8]byte
	if _, err := out.Read(line[:]); err != nil || string(line[:7]) != "lowered" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := proxy.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = proxy.Wait()
}

// TestCrash kills a proxy that has lowered processes. The next one puts them
// back, all at once or each as it serves a request; but not one that somebody else has changed.
func TestCrash(t *testing.T) {
	needsRight(t)
	ids := []process.ID{startWorker(t, 0), startWorker(t, 3), startWorker(t, -2), startWorker(t, 0)}
	var pids []int
	for _, id := range ids {
		pids = append(pids, id.PID)
	}
	mended := func(k *Keeper) int { return int(k.Counts().Recovered) }
	for name, next := range map[string]func(k *Keeper) int{
		"next start": func(k *Keeper) int { k.MendAll(pids); return mended(k) },
		"found later": func(k *Keeper) int {
			for _, id := range ids {
				k.Mend(id)
			}
			return mended(k)
		},
		"request": func(k *Keeper) int {
			for _, id := range ids[:3] {
				h := new(Hold)
				if err := k.Step(h, id, 3); err != nil {
					t.Error(err)
				}
				wantNice(t, id, idle)
				k.End(h)
			}
			if err := k.Step(new(Hold), ids[3], 3); !errors.Is(err, errOwn) {
				t.Error(err)
			}
			return 3
		},
	} {
		if err := unix.Setpriority(unix.PRIO_PROCESS, ids[3].PID, 0); err != nil {
			t.Fatal(err)
		}
		crash(t, ids...)
		wantNice(t, ids[1], 13)
		if err := unix.Setpriority(unix.PRIO_PROCESS, ids[3].PID, 1); err != nil {
			t.Fatal(err)
		}
		if n := next(openedKeeper(t)); n != 3 {
			t.Errorf("%s: %d were put back", name, n)
		}
		for i, want := range []int{0, 3, -2, 1} {
			wantNice(t, ids[i], want)
		}
	}
}

// TestOwnPriorities leaves alone what no parent vouches for: a process that another program has
// started, at whatever nice value, and the server itself.
func TestOwnPriorities(t *testing.T) {
	needsRight(t)
	k := openedKeeper(t)
	alone := exec.CommandContext(t.Context(), "sleep", "60")
	if err := alone.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = alone.Process.Kill(); _ = alone.Wait() }()
	worker, ok := processAt(os.DirFS("/"), startWorker(t, 5).PID)
	if !ok {
		t.Fatal("the worker has ended")
	}
	for pid, nice := range map[int]int{alone.Process.Pid: 10, worker.Parent: 5} {
		if err := unix.Setpriority(unix.PRIO_PROCESS, pid, nice); err != nil {
			t.Fatal(err)
		}
		id, err := process.Read(pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Step(new(Hold), id, 3); !errors.Is(err, errOwn) {
			t.Error(err)
		}
		k.Mend(id)
		wantNice(t, id, nice)
	}
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
	k := openedKeeper(t)
	for policy, want := range map[int]error{unix.SCHED_BATCH: errPolicy, unix.SCHED_IDLE: nil} {
		id := startWorker(t, 3)
		server, ok := system{}.Parent(id)
		if err := errors.Join(setPolicy(id.PID, policy), setPolicy(server.PID, policy)); err != nil || !ok {
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
	for own, want := range map[int][Steps]int{0: {5, 10, 19}, 12: {17, 19, 19}, -5: {0, 5, 19}} {
		for i, level := range want {
			if got := levelBelow(own, i+1, lowestNice); got != level {
				t.Errorf("%d, step %d: %d, want %d", own, i+1, got, level)
			}
		}
	}
}
