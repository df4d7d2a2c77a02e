package handover

import (
	"net"
	"os"
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
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: "@tempomat-test-" + t.Name(), Net: "unix"})
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
