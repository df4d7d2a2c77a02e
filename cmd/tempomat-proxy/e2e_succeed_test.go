package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestSucceed: at SIGUSR2 the program that now is where this one was started from takes
// its place, and nobody is refused; one that cannot start leaves all as it was.
func TestSucceed(t *testing.T) {
	url, _, _ := pageBackend(t)
	s, systemd := startInstalled(t, url)
	a := startAskers(t, s.url+"/", 8)
	a.until(100)

	broken := filepath.Join(s.dir, "next")
	writeFile(t, broken, "no program")
	s.install(broken)
	s.signal(syscall.SIGUSR2)
	s.stderr.await(t, 0, `"level":"error"`, `"msg":"is not replaced"`)
	a.until(200)

	s.install(copyOf(t, program(t, "tempomat-proxy"), broken))
	s.signal(syscall.SIGUSR2)
	next := systemd.mainPID()
	t.Cleanup(func() { endForeign(t, next) })
	a.until(a.asked.Load() + 100)
	a.end()
	if a.failed.Load() > 0 {
		t.Errorf("%d of %d requests failed", a.failed.Load(), a.asked.Load())
	}
	if at, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", next)); err != nil || at != s.program {
		t.Errorf("the service is %q %v, want %q", at, err, s.program)
	}
	systemd.awaitPing(next)
	endForeign(t, next)
	if status := s.exit(); status != 0 { // of the first process, whose output both have
		t.Errorf("exit status %d:\n%s", status, s.stderr)
	}
}

// installed is a sidecar that runs from a file of its own, which a test may replace.
type installed struct {
	*sidecarProcess
	program string
}

// install puts another file in the program's place, as a package manager does.
func (s *installed) install(file string) {
	if err := os.Chmod(file, 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(file, s.program); err != nil {
		s.t.Fatal(err)
	}
}

func startInstalled(t *testing.T, backend string) (*installed, *fakeSystemd) {
	t.Helper()
	dir := tempDir(t)
	file := copyOf(t, program(t, "tempomat-proxy"), filepath.Join(dir, "tempomat-proxy"))
	if err := os.Chmod(file, 0o755); err != nil {
		t.Fatal(err)
	}
	systemd := newFakeSystemd(t, filepath.Join(dir, "notify"))
	env := []string{"NOTIFY_SOCKET=" + systemd.path, "WATCHDOG_USEC=300000"}
	s := &installed{program: file, sidecarProcess: startProxyAs(t, env, []string{file}, backend, "state: off\nlog: {access: off}\n")}
	return s, systemd
}

func copyOf(t *testing.T, from, to string) string {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}

// fakeSystemd hears what systemd does.
type fakeSystemd struct {
	t    *testing.T
	path string
	conn *net.UnixConn
}

func newFakeSystemd(t *testing.T, path string) *fakeSystemd {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := passCredentials(conn); err != nil {
		t.Fatal(err)
	}
	return &fakeSystemd{t: t, path: path, conn: conn}
}

func passCredentials(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_PASSCRED, 1)
	})
	if err == nil {
		err = failed
	}
	return err
}

// hear returns the next message and who sent it.
func (f *fakeSystemd) hear() (message string, pid int) {
	f.t.Helper()
	text, control := make([]byte, 4096), make([]byte, 4096)
	_ = f.conn.SetReadDeadline(time.Now().Add(testkit.Patience))
	n, nc, _, _, err := f.conn.ReadMsgUnix(text, control)
	if err != nil {
		f.t.Fatal(err)
	}
	messages, err := syscall.ParseSocketControlMessage(control[:nc])
	if err != nil || len(messages) == 0 {
		f.t.Fatalf("nobody has sent it: %v", err)
	}
	who, err := syscall.ParseUnixCredentials(&messages[0])
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text[:n]), int(who.Pid)
}

// mainPID waits until a process is told to be the service.
func (f *fakeSystemd) mainPID() (pid int) {
	f.t.Helper()
	for {
		message, _ := f.hear()
		if _, number, found := strings.Cut(message, "MAINPID="); found {
			if _, err := fmt.Sscan(number, &pid); err != nil {
				f.t.Fatalf("%q: %v", message, err)
			}
			return pid
		}
	}
}

// awaitPing waits until the process tells the watchdog that it serves.
func (f *fakeSystemd) awaitPing(pid int) {
	f.t.Helper()
	for {
		if message, by := f.hear(); message == "WATCHDOG=1" && by == pid {
			return
		}
	}
}

// endForeign ends a process that is no child of this one.
func endForeign(t *testing.T, pid int) {
	t.Helper()
	_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended
	for deadline := time.Now().Add(testkit.Patience); syscall.Kill(pid, 0) == nil && !isZombie(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Errorf("process %d had to be killed", pid)
			return
		}
	}
}

// isZombie tells whether a process has ended and only its parent does not know yet.
func isZombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}
