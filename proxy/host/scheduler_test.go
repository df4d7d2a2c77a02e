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
	"tempomat/internal/testkit"
)

// needsRight skips the test if priorities can't be restored. In CI, which runs as root, they can.
func needsRight(t *testing.T) {
	t.Helper()
	if err := probe(); err != nil {
		if os.Getenv("CI") != "" && os.Geteuid() == 0 {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// startWorker makes a server fork a worker that waits until the test ends. Both have the given nice value.
func startWorker(t *testing.T, nice int) process.ID {
	t.Helper()
	server := exec.CommandContext(t.Context(), "sh", "-c", "read start; exec 3<&0; (read never <&3) & echo $!; wait")
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := server.StdinPipe()
	testkit.Must(t, err)
	out, err := server.StdoutPipe()
	testkit.Must(t, errors.Join(err, server.Start()))
	t.Cleanup(func() {
		_ = syscall.Kill(-server.Process.Pid, syscall.SIGKILL)
		_ = server.Wait()
	})
	testkit.Must(t, unix.Setpriority(unix.PRIO_PROCESS, server.Process.Pid, nice))
	var pid int
	_, err = in.Write([]byte("\n"))
	if _, e := fmt.Fscan(out, &pid); err != nil || e != nil {
		t.Fatal(err, e)
	}
	return idOf(pid)
}

// idOf returns the ID of the process that has this number now. It is zero if there is none.
func idOf(pid int) process.ID {
	p, _ := processAt(os.DirFS("/"), pid)
	return process.ID{PID: p.PID, Start: p.Start}
}

func wantNice(t *testing.T, id process.ID, want int) {
	t.Helper()
	if got, err := (system{}).Nice(id); err != nil || got != want {
		t.Errorf("process %d has nice %d, %v; want %d", id.PID, got, err, want)
	}
}

func openedKeeper(t *testing.T) *Keeper {
	t.Helper()
	k, err := OpenKeeper(PriorityCounts{})
	testkit.Must(t, err)
	t.Cleanup(k.Close)
	return k
}

// TestDownAndBack lowers the priorities of processes that had different ones, and restores them.
func TestDownAndBack(t *testing.T) {
	needsRight(t)
	k := openedKeeper(t)
	for _, own := range []int{-3, 0, 4, 12, 19} {
		id, h := startWorker(t, own), new(Hold)
		for step, want := range []int{own, min(own+5, 19), min(own+10, 19), idle} {
			testkit.Must(t, k.Step(h, id, step))
			wantNice(t, id, want)
		}
		testkit.Must(t, k.Step(h, id, 1))
		wantNice(t, id, idle) // the priority never rises while the request runs
		k.End(h)
		wantNice(t, id, own)
		testkit.Must(t, k.Step(h, id, 3))
		wantNice(t, id, own) // the request is over
	}
	if c := k.Counts(); c.Lowered != 0 || c.Restored != 5 {
		t.Errorf("%+v", c)
	}
}

// TestShared: the priority of a process that serves two requests isn't lowered for the second.
func TestShared(t *testing.T) {
	needsRight(t)
	k := openedKeeper(t)
	id := startWorker(t, 0)
	var one, other Hold
	testkit.Must(t, k.Step(&one, id, 1))
	if err := k.Step(&other, id, 3); !errors.Is(err, ErrShared) {
		t.Error(err)
	}
	k.End(&other)
	wantNice(t, id, 5)
	k.End(&one)
	wantNice(t, id, 0)
}

// crashVariable is the environment variable that makes this program lower priorities and wait to be killed.
const crashVariable = "PRIORITY_TEST_CRASH"

func lowerAndWait(pids []string) {
	k, err := OpenKeeper(PriorityCounts{})
	for i, text := range pids {
		pid, _ := strconv.Atoi(text)
		err = errors.Join(err, k.Step(new(Hold), idOf(pid), 1+i%Steps))
	}
	if err != nil {
		println(err.Error())
		os.Exit(1)
	}
	println("lowered")
	select {}
}

// crash makes another process lower the priorities of processes, and then kills it.
func crash(t *testing.T, ids ...process.ID) {
	t.Helper()
	proxy := exec.CommandContext(t.Context(), os.Args[0])
	for _, id := range ids {
		proxy.Args = append(proxy.Args, strconv.Itoa(id.PID))
	}
	proxy.Env = append(os.Environ(), crashVariable+"=1")
	out, err := proxy.StderrPipe()
	testkit.Must(t, errors.Join(err, proxy.Start()))
	var line [8]byte
	if _, err := out.Read(line[:]); err != nil || string(line[:7]) != "lowered" {
		t.Fatalf("%q, %v", line, err)
	}
	testkit.Must(t, proxy.Process.Kill())
	_ = proxy.Wait()
}

// TestCrash kills a proxy that has lowered priorities. The next proxy restores the priority of each process
// when the process serves a request, unless another program has changed it.
func TestCrash(t *testing.T) {
	needsRight(t)
	ids := []process.ID{startWorker(t, 0), startWorker(t, 3), startWorker(t, -2), startWorker(t, 0)}
	for name, next := range map[string]func(k *Keeper) int{
		"found later": func(k *Keeper) int {
			for _, id := range ids {
				k.Mend(id)
			}
			return int(k.Counts().Recovered)
		},
		"request": func(k *Keeper) int {
			for _, id := range ids[:3] {
				h := new(Hold)
				testkit.Must(t, k.Step(h, id, 3))
				wantNice(t, id, idle)
				k.End(h)
			}
			if err := k.Step(new(Hold), ids[3], 3); !errors.Is(err, errOwn) {
				t.Error(err)
			}
			return 3
		},
	} {
		testkit.Must(t, unix.Setpriority(unix.PRIO_PROCESS, ids[3].PID, 0))
		crash(t, ids...)
		wantNice(t, ids[1], 13)
		testkit.Must(t, unix.Setpriority(unix.PRIO_PROCESS, ids[3].PID, 1))
		testkit.Same(t, 3, next(openedKeeper(t)), "%s: put back", name)
		for i, want := range []int{0, 3, -2, 1} {
			wantNice(t, ids[i], want)
		}
	}
}

// TestOwnPriorities: a process that another program has started, at any nice value, keeps its priority. The
// server itself keeps its priority as well.
func TestOwnPriorities(t *testing.T) {
	needsRight(t)
	k := openedKeeper(t)
	alone := exec.CommandContext(t.Context(), "sleep", "60")
	testkit.Must(t, alone.Start())
	defer func() { _ = alone.Process.Kill(); _ = alone.Wait() }()
	worker, ok := processAt(os.DirFS("/"), startWorker(t, 5).PID)
	if !ok {
		t.Fatal("the worker has ended")
	}
	for pid, nice := range map[int]int{alone.Process.Pid: 10, worker.Parent: 5} {
		testkit.Must(t, unix.Setpriority(unix.PRIO_PROCESS, pid, nice))
		id := idOf(pid)
		if err := k.Step(new(Hold), id, 3); !errors.Is(err, errOwn) {
			t.Error(err)
		}
		k.Mend(id)
		wantNice(t, id, nice)
	}
}

// TestThreadsFollow: a thread that was started while its process was lowered is restored with the process.
func TestThreadsFollow(t *testing.T) {
	needsRight(t)
	pid, own := os.Getpid(), niceOf(t, os.Getpid())
	defer func() { _ = system{}.SetNice(pid, own) }()
	testkit.Must(t, (system{}).SetNice(pid, own+5))
	started, end, ended := make(chan int), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // the thread ends with this goroutine
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, own+5)
		started <- unix.Gettid()
		<-end
	}()
	tid := <-started
	testkit.Must(t, (system{}).SetNice(pid, own))
	testkit.Same(t, own, niceOf(t, tid), "a thread has nice")
	close(end)
	<-ended
}

func niceOf(t *testing.T, tid int) int {
	t.Helper()
	x, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
	testkit.Must(t, err)
	return 20 - x
}

// TestOtherPolicies checks that a process with another scheduling policy keeps it, and that an idle
// process goes no lower.
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
