package handover

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestStrangersAreRefused has a thread of another user ask, and one of ours answer it.
func TestStrangersAreRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can ask as somebody else")
	}
	const nobody = 65534
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fmt.Sprint("@tempomat-test-", t.Name(), os.Getpid()), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// A thread that is not unlocked ends with its goroutine, and its user with it.
	asks := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		const same = ^uintptr(0)
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, same, nobody, same); e != 0 {
			asks <- e
			return
		}
		c, err := net.Dial("unix", l.Addr().String())
		if err == nil {
			defer c.Close()
			_, err = newLine(c.(*net.UnixConn), patient).receive(patient.Answer)
		}
		asks <- err
	}()
	conn, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	_, err = Answer(conn, patient)
	_ = conn.Close()
	if err == nil || !strings.Contains(err.Error(), "of user 65534") {
		t.Errorf("it was answered: %v", err)
	}
	if err := <-asks; err == nil || !strings.Contains(err.Error(), "only root and user 0 may take over") {
		t.Errorf("it was told: %v", err)
	}
}

// TestListenersAreNamed has a socket that another process opened change hands: who
// connects then is told of this process, which is the one to end if it hangs.
func TestListenersAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	opener := exec.Command(os.Args[0], "-test.run=^TestOpenSocket$")
	opener.Env = append(os.Environ(), openSocketAt+"="+path)
	ours, theirs, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	opener.ExtraFiles = []*os.File{theirs}
	if out, err := opener.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_ = theirs.Close()
	defer ours.Close()
	_, _, fds, err := receiveSockets(ours)
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := listeners(fds, []listed{{Owned: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer Close(sockets)
	for _, c := range []struct {
		when string
		own  func()
		want int
	}{
		{"before", func() {}, opener.Process.Pid},
		{"after", func() { keep(t, sockets) }, os.Getpid()},
	} {
		c.own()
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if pid, _, err := peer(conn.(*net.UnixConn)); pid != c.want || err != nil {
			t.Errorf("%s it is ours, it is process %d that listens (%v), want %d", c.when, pid, err, c.want)
		}
		_ = conn.Close()
	}
}

// keep has a Taker of sockets serve them.
func keep(t *testing.T, sockets []Socket) {
	t.Helper()
	giver, theirs, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.FileConn(theirs)
	if err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	_ = giver.Close() // it ends, which is no error
	taker := &Taker{line: newLine(conn.(*net.UnixConn), patient), Sockets: sockets}
	if err := taker.Serving(sockets); err != nil {
		t.Fatal(err)
	}
}

// openSocketAt names the variable that has TestOpenSocket open a socket.
const openSocketAt = "TEMPOMAT_TEST_OPEN_SOCKET"

// TestOpenSocket is the other process of TestListenersAreNamed.
func TestOpenSocket(t *testing.T) {
	path := os.Getenv(openSocketAt)
	if path == "" {
		t.Skip("only as a process of another test")
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	c, err := net.FileConn(os.NewFile(3, "the other test"))
	if err != nil {
		t.Fatal(err)
	}
	if err := sendSockets(c.(*net.UnixConn), []byte("\n"), []Socket{{Listener: l}}); err != nil {
		t.Fatal(err)
	}
}

// pair makes a connection whose other end is for another process.
func pair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fds[0]), "ours")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, nil, err
	}
	return c.(*net.UnixConn), os.NewFile(uintptr(fds[1]), "theirs"), nil
}
