package host

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tempomat/internal/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv(crashVariable) != "" {
		lowerAndWait(os.Args[1:])
	}
	goleak.VerifyTestMain(m)
}

// lacking is a listener whose Accept fails several times and then returns a connection.
type lacking struct {
	net.Listener
	err   error
	fails int
	tried []time.Duration
	since time.Time
}

func (l *lacking) Accept() (net.Conn, error) {
	l.tried = append(l.tried, time.Since(l.since))
	if l.fails--; l.fails >= 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", l.err)}
	}
	ours, _ := net.Pipe()
	return ours, nil
}

// TestClientsAreTriedAgain checks that Accept tries again after temporary errors, and fails after
// others.
func TestClientsAreTriedAgain(t *testing.T) {
	for lack, isFull := range map[error]bool{syscall.EMFILE: true, syscall.ENFILE: true, syscall.ENOBUFS: true, syscall.ENOMEM: true, syscall.EINVAL: false} {
		synctest.Test(t, func(t *testing.T) {
			told := 0
			inner := &lacking{err: lack, fails: 10, since: time.Now()}
			c, err := Patient(inner, func(err error) {
				if told++; !errors.Is(err, lack) {
					t.Error(err)
				}
			}).Accept()
			if !isFull {
				if !errors.Is(err, lack) || told > 0 {
					t.Errorf("%v, told %d times", err, told)
				}
				return
			}
			testkit.Must(t, err)
			_ = c.Close()
			var want []time.Duration
			for _, ms := range []int{0, 5, 15, 35, 75, 155, 315, 635, 1275, 2275, 3275} {
				want = append(want, time.Duration(ms)*time.Millisecond)
			}
			if !slices.Equal(inner.tried, want) || told != 10 {
				t.Errorf("%v: tried after %v, want %v; told %d times", lack, inner.tried, want, told)
			}
		})
	}
}

func TestForClients(t *testing.T) {
	for limit, want := range map[uint64]int{
		0: 1, 64: 8, 128: 16, 256: 42, 1024: 298, 65536: 21802, 262144: 87338, 1 << 30: 262144,
		1 << 63: 262144, // RLIM_INFINITY is larger still
	} {
		testkit.Same(t, want, ForClients(limit), "of %d descriptors for clients", limit)
	}
	last := 0
	for limit := range uint64(600_000) {
		n := ForClients(limit)
		if n < last || n < 1 || limit > 0 && uint64(n) > max(1, limit/3) {
			t.Fatalf("of %d descriptors %d are for clients, of one less %d", limit, n, last)
		}
		last = n
	}
	if n, err := Limit(); err != nil || n < 16 {
		t.Errorf("%d, %v", n, err)
	}
}

// TestSetMode changes the mode of sockets, but of no other files.
func TestSetMode(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	testkit.Must(t, os.WriteFile(at("file"), nil, 0o600))
	l, err := net.Listen("unix", at("socket"))
	testkit.Must(t, err)
	defer l.Close()
	for link, target := range map[string]string{"link": "file", "other": "socket"} {
		testkit.Must(t, os.Symlink(at(target), at(link)))
	}
	testkit.Must(t, os.Chmod(at("socket"), 0o600))
	for name, ok := range map[string]bool{"file": false, "link": false, "other": false, "none": false, "socket": true} {
		if err := setMode(at(name)); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]os.FileMode{"file": 0o600, "socket": socketMode} {
		if info, err := os.Stat(at(name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has %v, want %v", name, info.Mode(), want)
		}
	}
}

func TestListenModeAndRemoval(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "admin.sock")
	l, err := ListenUnix(t.Context(), path)
	testkit.Must(t, err)
	info, err := os.Lstat(path)
	testkit.Must(t, err)
	testkit.Same(t, fs.ModeSocket|0o660, info.Mode(), "mode")
	testkit.Must(t, l.Close())
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %v, want none", err)
	}
}

func TestListenTakesOnlyADeadSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	testkit.Must(t, err)
	dead.SetUnlinkOnClose(false)
	testkit.Must(t, dead.Close())
	alive, err := ListenUnix(t.Context(), path)
	if err != nil {
		t.Fatalf("beside a dead socket: %v", err)
	}
	defer alive.Close()
	if _, err := ListenUnix(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another process already answers on "+path) {
		t.Errorf("beside a live socket: %v", err)
	}
	dial(t, "unix", path, 1) // the live socket is still there
}

func TestListenErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(file, []byte("precious"), 0o600))
	for path, want := range map[string]string{
		file:        "exists and is not a socket",
		file + "/x": "not a directory",
	} {
		l, err := ListenUnix(t.Context(), path)
		if err == nil {
			_ = l.Close()
			t.Errorf("%q: no error", path)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, want %q", path, err, want)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "precious" {
		t.Errorf("the file is %q, %v", got, err)
	}
}
