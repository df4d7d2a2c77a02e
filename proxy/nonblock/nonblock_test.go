package nonblock_test

import (
	"bytes"
	"errors"
	"runtime"
	"syscall"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/proxy/nonblock"
)

// pair returns two connected sockets that don't block.
func pair(t *testing.T) (a, b uintptr) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	testkit.Must(t, err)
	for _, fd := range fds {
		testkit.Must(t, syscall.SetNonblock(fd, true))
		t.Cleanup(func() { _ = syscall.Close(fd) })
	}
	return uintptr(fds[0]), uintptr(fds[1])
}

func TestReadAndPeek(t *testing.T) {
	a, b := pair(t)
	var p [16]byte
	for what, call := range map[string]func(uintptr, []byte) (int, error){"Read": nonblock.Read, "Peek": nonblock.Peek} {
		if n, err := call(a, p[:]); n != 0 || !errors.Is(err, syscall.EAGAIN) {
			t.Errorf("%s of nothing: %d, %v", what, n, err)
		}
	}
	if n, err := nonblock.Write(b, []byte("hello")); n != 5 || err != nil {
		t.Fatalf("Write: %d, %v", n, err)
	}
	for range 2 {
		if n, err := nonblock.Peek(a, p[:2]); n != 2 || err != nil || string(p[:2]) != "he" {
			t.Errorf("Peek: %q, %v", p[:n], err)
		}
	}
	if n, err := nonblock.Read(a, p[:]); err != nil || string(p[:n]) != "hello" {
		t.Errorf("Read: %q, %v", p[:n], err)
	}
	testkit.Must(t, syscall.Shutdown(int(b), syscall.SHUT_WR))
	if n, err := nonblock.Read(a, p[:]); n != 0 || err != nil {
		t.Errorf("Read of the end: %d, %v", n, err)
	}
}

// TestWriteAll checks that bytes without room stay unwritten, and that no byte is lost or written twice.
func TestWriteAll(t *testing.T) {
	a, b := pair(t)
	pieces := [][]byte{bytes.Repeat([]byte("a"), 1<<20), {}, bytes.Repeat([]byte("b"), 1000), []byte("c"), []byte("d"), []byte("e")}
	want := bytes.Join(pieces, nil)
	var got []byte
	buffer, full := make([]byte, 1<<16), 0
	for len(got) < len(want) {
		n, err := nonblock.WriteAll(a, pieces)
		if errors.Is(err, syscall.EAGAIN) {
			full++
		} else if err != nil {
			t.Fatal(err)
		}
		for len(pieces) > 0 && n >= len(pieces[0]) {
			n -= len(pieces[0])
			pieces = pieces[1:]
		}
		if n > 0 {
			pieces[0] = pieces[0][n:]
		}
		if n, err = nonblock.Read(b, buffer); err != nil && !errors.Is(err, syscall.EAGAIN) {
			t.Fatal(err)
		}
		got = append(got, buffer[:n]...)
	}
	if !bytes.Equal(got, want) || full == 0 && len(pieces) > 0 {
		t.Errorf("%d bytes came of %d, %d pieces are left", len(got), len(want), len(pieces))
	}
}

func TestErrors(t *testing.T) {
	a, b := pair(t)
	testkit.Must(t, syscall.Shutdown(int(b), syscall.SHUT_RDWR))
	if _, err := nonblock.Write(a, []byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("Write to who has left: %v", err)
	}
	if _, err := nonblock.WriteAll(a, [][]byte{[]byte("x"), []byte("y")}); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("WriteAll to who has left: %v", err)
	}
	none := ^uintptr(0)
	if _, err := nonblock.Read(none, make([]byte, 1)); !errors.Is(err, syscall.EBADF) {
		t.Errorf("Read of no file: %v", err)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	a, b := pair(t)
	pieces, p := [][]byte{[]byte("one"), []byte("two")}, make([]byte, 16)
	if n := testing.AllocsPerRun(100, func() {
		_, _ = nonblock.WriteAll(a, pieces)
		_, _ = nonblock.Peek(b, p)
		_, _ = nonblock.Read(b, p)
		_, _ = nonblock.Read(b, p)
	}); n != 0 && runtime.GOOS == "linux" && !testing.Short() { // with the race detector, calls are announced
		t.Errorf("%g allocations", n)
	}
}
