package spool

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A transfer whose reader stays a little behind uses little of the disk, however
// long it is.
func TestLongTransferGivesBackWhatWasRead(t *testing.T) {
	const lag, total = 4 << 20, 64 << 20
	s := NewStore(roomy(t))
	p := s.Open(anybody, 0, 1<<30)
	b, got := text(256<<10), make([]byte, 256<<10)
	most := int64(0)
	for sent := 0; sent < total; sent += len(b) {
		if n := p.TryWrite(b); n != len(b) {
			t.Fatalf("took %d", n)
		}
		if sent < lag {
			continue
		}
		if _, err := io.ReadFull(p, got); err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%v; equal: %v", err, bytes.Equal(got, b))
		}
		most = max(most, s.Stats().Disk)
	}
	if most > lag+2*punchStep {
		t.Errorf("%d MB of the disk were in use", most>>20)
	}
	info, err := p.file.file.(holedFile).Stat()
	if err != nil {
		t.Fatal(err)
	}
	if used := info.Sys().(*syscall.Stat_t).Blocks * 512; used > lag+4*punchStep {
		t.Errorf("the file has %d MB of the disk", used>>20)
	}
	p.CloseWrite(nil)
	if n, err := io.Copy(io.Discard, p); n != lag || err != nil {
		t.Errorf("the rest: %d, %v", n, err)
	}
	if got := s.Stats(); got.Disk != 0 || got.Files != 0 {
		t.Errorf("read to its end, the file is still there: %+v", got)
	}
	p.Close()
	empty(t, s)
}

// tinyDisk mounts a file system of a megabyte.
func tinyDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestFullFileSystem(t *testing.T) {
	dir := tinyDisk(t)
	s := NewStore(Limits{Directory: dir, Disk: 1 << 30, Memory: 1 << 20, Address: 1})
	s.free = func(string) (int64, int64, error) { return 1 << 40, 1 << 40, nil } // it finds out the hard way
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
	s = NewStore(Limits{Directory: dir, Memory: 1 << 20, Address: 1}) // learns how small it is
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
	if err := Check(tinyDisk(t)); err == nil || !strings.Contains(err.Error(), "in memory") {
		t.Errorf("of a tmpfs: %v", err)
	}
}

// TestKilled: nothing is left of the files of a process that is killed.
func TestKilled(t *testing.T) {
	const variable = "SPOOL_TEST_DIRECTORY"
	if dir := os.Getenv(variable); dir != "" {
		spoolForever(t, dir)
	}
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	child.Env = append(os.Environ(), variable+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "spooled\n" {
		t.Errorf("the child says %q, %v", line, err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// spoolForever is the child: it fills files and waits to be killed.
func spoolForever(t *testing.T, dir string) {
	s := NewStore(Limits{Directory: dir, Disk: 1 << 30, Address: 1})
	for range 10 {
		if n := s.Open(anybody, 0, 1<<30).TryWrite(text(100_000)); n != 100_000 {
			t.Fatalf("took %d", n)
		}
	}
	f, err := createFile(dir) // as on file systems without O_TMPFILE
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := s.Stats(); got.Files != 10 || got.Errors != 0 {
		t.Fatalf("%+v", got)
	}
	_, _ = os.Stdout.WriteString("spooled\n")
	select {}
}
