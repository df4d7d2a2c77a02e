package process

import (
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"testing"

	"tempomat/internal/testkit"
)

// startPiped starts a program that reads from in and writes to out.
func startPiped(t *testing.T, c *exec.Cmd) (in io.WriteCloser, out io.ReadCloser) {
	t.Helper()
	in, err := c.StdinPipe()
	testkit.Must(t, err)
	out, err = c.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, c.Start())
	return in, out
}

// TestHandle reads a process through its open files for as long as it exists, and never afterwards.
func TestHandle(t *testing.T) {
	child := exec.CommandContext(t.Context(), "cat")
	in, out := startPiped(t, child)
	echo := []byte("x")
	if _, err := in.Write(echo); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, echo); err != nil { // by then, it has used some CPU time
		t.Fatal(err)
	}
	h, err := Open(child.Process.Pid)
	testkit.Must(t, err)
	defer h.Close()
	id := h.ID()
	if id.PID != child.Process.Pid || id.Start == 0 || !id.Alive() {
		t.Fatalf("process %d is opened as %+v", child.Process.Pid, id)
	}
	if u, err := h.Usage(); err != nil || u.CPU <= 0 || u.Threads != 1 {
		t.Errorf("%+v, %v", u, err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = h.Usage() }); n > 0 {
		t.Errorf("%g allocations a reading", n)
	}
	_ = in.Close()
	testkit.Must(t, child.Wait())
	if u, err := h.Usage(); !errors.Is(err, fs.ErrNotExist) || u != (Usage{}) {
		t.Errorf("after the process has ended: %+v, %v", u, err)
	}
}
