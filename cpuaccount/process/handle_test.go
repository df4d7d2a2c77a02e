package process

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
)

// startPiped starts a program that is told by in, and tells by out.
func startPiped(t *testing.T, c *exec.Cmd) (in io.WriteCloser, out io.ReadCloser) {
	t.Helper()
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err = c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return in, out
}

// TestHandle reads a process by its open files for as long as it is there, and never again.
func TestHandle(t *testing.T) {
	child := exec.CommandContext(t.Context(), "cat")
	in, out := startPiped(t, child)
	echo := []byte("x")
	if _, err := in.Write(echo); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, echo); err != nil { // from then on it has computed something
		t.Fatal(err)
	}
	h, err := Open(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	id, err := Read(child.Process.Pid)
	if err != nil || h.ID() != id {
		t.Fatalf("%+v is opened as %+v, %v", id, h.ID(), err)
	}
	if u, err := h.Usage(); err != nil || u.CPU <= 0 || u.Threads != 1 {
		t.Errorf("%+v, %v", u, err)
	}
	_ = in.Close()
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	if u, err := h.Usage(); !errors.Is(err, fs.ErrNotExist) || u != (Usage{}) {
		t.Errorf("what has ended: %+v, %v", u, err)
	}
	if _, err := Open(id.PID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open what has ended: %v", err)
	}
}

// lastPID is where the number of the process before the next one is told to the kernel.
const lastPID = "/proc/sys/kernel/ns_last_pid"

// TestHandleOfANumberUsedAgain gives a process's number to another one: in a PID namespace of its
// own, where the next number can be chosen.
func TestHandleOfANumberUsedAgain(t *testing.T) {
	if os.Getenv("TEMPOMAT_TEST_REUSE") == "" {
		apart := []string{"--pid", "--fork", "--mount-proc"}
		try := append(slices.Clone(apart), "test", "-w", lastPID)
		if out, err := exec.CommandContext(t.Context(), "unshare", try...).CombinedOutput(); err != nil {
			if _, err := os.Stat(lastPID); err == nil && os.Getenv("CI") == "true" {
				t.Fatalf("CI has a kernel that lets numbers be chosen: %s", out)
			}
			t.Skipf("a PID namespace takes root, and to choose a number a kernel with CHECKPOINT_RESTORE: %v %s", err, out)
		}
		again := exec.CommandContext(t.Context(), "unshare", append(apart, os.Args[0], "-test.run=^"+t.Name()+"$")...)
		again.Env = append(os.Environ(), "TEMPOMAT_TEST_REUSE=1")
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	first := exec.CommandContext(t.Context(), "sleep", "60")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	h, err := Open(first.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	_ = first.Process.Kill()
	_ = first.Wait() // it was killed
	pid := first.Process.Pid
	for range 1000 { // threads of this process may take the number
		if err := os.WriteFile(lastPID, []byte(strconv.Itoa(pid-1)), 0o600); err != nil {
			t.Fatal(err)
		}
		second := exec.CommandContext(t.Context(), "sleep", "60")
		if err := second.Start(); err != nil {
			t.Fatal(err)
		}
		is := second.Process.Pid == pid
		if is {
			if u, err := h.Usage(); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the process that has the number now is read: %+v, %v", u, err)
			}
		}
		_ = second.Process.Kill()
		_ = second.Wait()
		if is {
			return
		}
	}
	t.Fatal("the number was not used again")
}
