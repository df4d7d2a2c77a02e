package spool

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

func TestFullFileSystem(t *testing.T) {
	dir := testkit.SmallDisk(t, 1024)
	s := NewStore(Limits{Directory: dir, Memory: 1 << 20, Address: 1})
	s.free = func(string) (int64, int64, error) { return 1 << 40, 1 << 40, nil } // the Store notices the full disk only when a write fails
	p := s.Open(anybody, 32<<10, 1<<30)
	if n := p.TryWrite(text(3 << 20)); n < 1<<20 || n > 1<<20+48<<10 {
		t.Errorf("took %d", n)
	}
	if got := s.Stats(); got.Errors != 1 {
		t.Errorf("%+v", got)
	}
	p.Close()
	p = s.Open(anybody, 32<<10, 1<<30)
	passes(t, p, text(5<<20))
	p.Close()
	empty(t, s)
	s = NewStore(Limits{Directory: dir, Memory: 1 << 20, Address: 1}) // the Store knows how small the disk is
	p = s.Open(anybody, 0, 1<<30)
	if n := p.TryWrite(text(3 << 20)); n > 1<<19 {
		t.Errorf("took %d, which is more than half", n)
	}
	p.Close()
	p = s.Open(anybody, 0, 1<<30)
	passes(t, p, text(5<<20))
	p.Close()
	empty(t, s)
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	if err := Check(dir); err != nil && !isMemory(dir) {
		t.Error(err)
	}
	if err := Check(dir + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no directory: %v", err)
	}
	if err := Check(testkit.SmallDisk(t, 1024)); err == nil || !strings.Contains(err.Error(), "in memory") {
		t.Errorf("of a tmpfs: %v", err)
	}
}

// TestKilled: a killed process leaves no files.
func TestKilled(t *testing.T) {
	const variable = "SPOOL_TEST_DIRECTORY"
	if dir := os.Getenv(variable); dir != "" {
		spoolForever(t, dir)
	}
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	child.Env = append(os.Environ(), variable+"="+dir)
	out, err := child.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "spooled\n" {
		t.Errorf("the child says %q, %v", line, err)
	}
	testkit.Must(t, child.Process.Kill())
	_ = child.Wait() // fails, because the child was killed
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// spoolForever is the child: it fills files and waits to be killed.
func spoolForever(t *testing.T, dir string) {
	s := NewStore(Limits{Directory: dir, Address: 1})
	for range 10 {
		testkit.Same(t, 100_000, s.Open(anybody, 0, 1<<30).TryWrite(text(100_000)), "TryWrite took")
	}
	if got := s.Stats(); got.Files != 10 || got.Errors != 0 {
		t.Fatalf("%+v", got)
	}
	_, _ = os.Stdout.WriteString("spooled\n")
	select {}
}
