package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/proxy/admin/api"
)

// TestSucceed: at SIGUSR2 the program that now is where this one was started from takes
// its place, and nobody is refused; one that cannot start leaves all as it was. Systemd is told
// which process is the service.
func TestSucceed(t *testing.T) {
	t.Parallel()
	url, _, _ := pageBackend(t)
	s, systemd := startInstalled(t, url)
	a := startAskers(t, s.url+"/", 8)
	a.until(100)

	broken := filepath.Join(s.dir, "next")
	writeFile(t, broken, "no program")
	s.install(broken)
	s.signal(syscall.SIGUSR2)
	s.stderr.await(t, 0, `"level":"error"`, "no other process takes over; this one goes on")
	a.until(200)

	s.install(copyOf(t, program(t, "tempomat-proxy"), broken))
	next := s.successor()
	if pid := systemd.mainPID(); pid != next.proc.Pid {
		t.Errorf("systemd was told that process %d is the service, want %d", pid, next.proc.Pid)
	}
	a.until(a.asked.Load() + 100)
	a.end()
	if a.failed.Load() > 0 {
		t.Errorf("%d of %d requests failed", a.failed.Load(), a.asked.Load())
	}
	if at, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", next.proc.Pid)); err != nil || at != s.program {
		t.Errorf("the service is %q %v, want %q", at, err, s.program)
	}
	if status := s.exit(); status != 0 {
		t.Errorf("exit status %d:\n%s", status, s.stderr)
	}
	systemd.awaitPing(next.proc.Pid)
	go func() { _, _ = io.Copy(io.Discard, systemd.conn) }() // who tells it more is not to wait
}

// TestFirstProcessOfAContainer: the container would end with its first process, which so stays as
// long as a successor runs, and passes signals on.
func TestFirstProcessOfAContainer(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root makes a space of process numbers")
	}
	came, goes := make(chan struct{}), make(chan struct{})
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			close(came)
			<-goes
		}
	}))
	defer backend.Close()
	release := sync.OnceFunc(func() { close(goes) })
	defer release()
	s := startProxyWith(t, nil, []string{"unshare", "--pid", "--fork", "--mount-proc"}, backend.URL, "state: off\n")
	inside, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", s.proc.Pid))
	if err != nil {
		t.Fatal(err)
	}
	var first int
	if _, err := fmt.Sscan(string(inside), &first); err != nil {
		t.Fatalf("%q: %v", inside, err)
	}
	signal := func(sig syscall.Signal, want string) {
		t.Helper()
		from := s.stderr.len()
		if err := syscall.Kill(first, sig); err != nil {
			t.Fatal(err)
		}
		s.stderr.await(t, from, want)
		if a := s.get("198.51.100.1", "/"); a.StatusCode != 200 {
			t.Error(a.Status)
		}
	}
	long := s.later(nil, "/long")
	<-came
	signal(syscall.SIGUSR2, `"msg":"draining"`)
	signal(syscall.SIGHUP, `"msg":"reloaded"`) // of the next one, while the first one drains
	release()
	if got := <-long; got != "200 OK" {
		t.Errorf("what was under way ended with %q", got)
	}
	s.stderr.await(t, 0, `"msg":"ended"`)
	signal(syscall.SIGUSR2, `"msg":"ended"`)
	if err := syscall.Kill(first, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := s.exit(); status != 0 {
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

// successor has a process start the one that takes its place, and waits until that serves. Both
// write the same log.
func (s *sidecarProcess) successor() *sidecarProcess {
	s.t.Helper()
	from := s.stderr.len()
	s.signal(syscall.SIGUSR2)
	line, _ := s.stderr.await(s.t, from, `"msg":"serving"`)
	said := parseLog(s.t, line)
	proc, err := os.FindProcess(said.PID)
	if err != nil {
		s.t.Fatal(err)
	}
	next := *s
	next.process = &process{t: s.t, proc: proc, path: s.path, stdout: s.stdout, stderr: s.stderr, said: s.said, followed: make(chan struct{}), ended: make(chan struct{})}
	next.url = "http://" + said.Listen[0]
	close(s.followed)
	next.awaitEnd()
	return &next
}

// TestSuccessorKeepsAccounts: what clients owe, and who is known, are as they were.
func TestSuccessorKeepsAccounts(t *testing.T) {
	t.Parallel()
	const person, debtor = "203.0.113.5", "203.0.113.6"
	url, _, _ := pageBackend(t)
	for _, state := range []string{"off", filepath.Join(tempDir(t), "state")} {
		s := startProxy(t, url, "state: "+state+"\ncpuCount: 100\ncost: {source: header}\n"+
			"classes: {slash32: {share: 0.0001, burst: 0s}, slash24: {share: 0.0001, burst: 5s}}\n")
		s.get(debtor, "/dear")
		testkit.Eventually(t, "a debt", func() bool { r, _ := s.account("slash32", debtor); return r.Level < -1 })
		login := clicked(person)
		fetch(t, newClient(t), http.MethodGet, s.url+"/login", login, nil)
		fetch(t, newClient(t), http.MethodGet, s.url+"/", login, nil)
		was, _ := s.account("slash32", person)
		row, _ := s.account("slash32", debtor)
		network, _ := s.account("slash24", "203.0.113.0/24")
		s = s.successor()
		// They earn a hundredth of a CPU-second in each second.
		if r, _ := s.account("slash32", debtor); r.Level < row.Level || r.Level > 0 {
			t.Errorf("state %s: the debtor had %.3f and has %.3f", state, row.Level, r.Level)
		}
		if r, _ := s.account("slash24", "203.0.113.0/24"); r.Level < network.Level || r.Level > network.Level+1 {
			t.Errorf("state %s: its network had %.3f and has %.3f", state, network.Level, r.Level)
		}
		fetch(t, newClient(t), http.MethodGet, s.url+"/", login, nil)
		if is, _ := s.account("slash32", person); was.Client == nil || is.Client == nil || was.Client.Standing <= 1 || is.Client.Standing != was.Client.Standing {
			t.Errorf("state %s: the person stood at %+v and stands at %+v", state, was.Client, is.Client)
		}
	}
}

// TestSucceedTwice: while the first process still answers what it was asked, the second
// is replaced, too. What is asked of the admin API is answered by the newest, and the
// socket is closed as that ends.
func TestSucceedTwice(t *testing.T) {
	t.Parallel()
	url, slow, release := pageBackend(t)
	first := startProxy(t, url, "state: off\n")
	answer := first.later(from("198.51.100.1"), "/slow")
	<-slow
	second := first.successor()
	first.stderr.await(t, 0, `"msg":"draining"`)
	second.get("198.51.100.2", "/")
	second.get("198.51.100.2", "/")
	third := second.successor()
	if status := second.exit(); status != 0 {
		t.Errorf("exit status %d:\n%s", status, second.stderr)
	}
	third.get("198.51.100.3", "/")
	if n := third.stats().Counters["requests"]; n != 1 {
		t.Errorf("the newest process was asked %d times, by its own account; want once", n)
	}
	if status, out, errs := third.doctor("status"); status != 0 {
		t.Error(out, errs)
	}
	release()
	if got := <-answer; got != "200 OK" {
		t.Errorf("what the first process was asked: %s", got)
	}
	if status := first.exit(); status != 0 {
		t.Errorf("exit status %d:\n%s", status, first.stderr)
	}
	if _, err := os.Stat(third.admin); err != nil {
		t.Errorf("the processes before have taken the socket away: %v", err)
	}
	third.signal(syscall.SIGTERM)
	if status := third.exit(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if _, err := os.Stat(third.admin); err == nil {
		t.Error("the admin socket is left behind")
	}
}

// TestSuccessorListensElsewhere: what is alike is taken over, what is new is opened, and
// what is left is closed.
func TestSuccessorListensElsewhere(t *testing.T) {
	t.Parallel()
	url, _, _ := pageBackend(t)
	dir := tempDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	listens := func(addresses ...string) string {
		return "state: off\nlisten: [\"" + strings.Join(addresses, `", "`) + "\"]\n"
	}
	s := startProxy(t, url, listens("127.0.0.1:0", "unix:"+at("stays"), "unix:"+at("goes")))
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.url, "http://"))
	s.configure(t, url, listens("localhost:"+port, "unix:"+at("new"), "unix:"+at("stays")))
	next := s.successor()
	s.exit()
	if next.url != s.url {
		t.Errorf("it serves %s, not %s", next.url, s.url)
	}
	if a := next.get("198.51.100.1", "/"); a.StatusCode != 200 {
		t.Error(a.Status)
	}
	for _, name := range []string{"stays", "new"} {
		if a := fetch(t, newUnixClient(t, at(name)), http.MethodGet, "http://socket/", nil, nil); a.StatusCode != 200 {
			t.Errorf("%s: %s", name, a.Status)
		}
	}
	if _, err := os.Stat(at("goes")); err == nil {
		t.Error("the file of the socket that is served no more is left behind")
	}
}

// TestSuccessorOfASupervised: sockets that a supervisor opened go on to the process that
// takes over, and their addresses are the supervisor's affair.
func TestSuccessorOfASupervised(t *testing.T) {
	t.Parallel()
	url, _, _ := pageBackend(t)
	path := filepath.Join(tempDir(t), "front.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket, err := l.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	s := unstarted(t)
	s.configure(t, url, "state: off\nlisten: 192.0.2.1:1\n")
	s.process = startProcessWith(t, []*os.File{socket}, []string{"LISTEN_FDS=1"}, "/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, program(t, "tempomat-proxy"), "-config", s.file)
	s.stderr.await(t, 0, `"msg":"serving"`)
	next := s.successor()
	s.exit()
	for range 2 {
		if a := fetch(t, newUnixClient(t, path), http.MethodGet, "http://socket/", nil, nil); a.StatusCode != 200 {
			t.Error(a.Status)
		}
	}
	next.signal(syscall.SIGTERM)
	next.exit()
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the supervisor's file is gone: %v", err)
	}
}

// TestSuccessorSharesOn: the port where sidecars tell each other is free as the process
// that takes over wants it.
func TestSuccessorSharesOn(t *testing.T) {
	t.Parallel()
	url, _, _ := pageBackend(t)
	at := "127.0.0.1:" + freePort(t)
	s := startProxy(t, url, fmt.Sprintf("state: off\ncoordination: {kind: gossip, gossip: {listen: %q, join: [%q]}}\n", at, at))
	for range 2 {
		old := s
		s = s.successor()
		var reply api.ShareReply
		testkit.Eventually(t, "it shares", func() bool {
			s.ask("/v1/share", &reply)
			return reply.Trouble != "" || reply.State != nil
		})
		if reply.Trouble != "" {
			t.Errorf("nothing is shared: %s", reply.Trouble)
		}
		old.exit()
		if s.stderr.count(0, `"level":"error"`)+old.stderr.count(0, `"level":"error"`) > 0 {
			t.Errorf("errors:\n%s%s", old.stderr, s.stderr)
		}
	}
}

// TestSuccessorFails: a process that cannot serve leaves the one that runs as it is.
func TestSuccessorFails(t *testing.T) {
	t.Parallel()
	url, _, _ := pageBackend(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := tempDir(t)
	socket, state := filepath.Join(dir, "front.sock"), filepath.Join(dir, "state")
	good := "state: " + state + "\nlisten: [\"127.0.0.1:0\", \"unix:" + socket + "\"]\n"
	s := startProxy(t, url, good)
	for name, c := range map[string]struct{ yaml, want string }{
		"an address is taken": {strings.Replace(good, "]", ", \""+taken.Addr().String()+"\"]", 1), "address already in use"},
		"it is wrong":         {"throttle: {mode: fast}\n", "throttle.mode"},
	} {
		s.configure(t, url, c.yaml)
		from := s.stderr.len()
		s.signal(syscall.SIGUSR2)
		s.stderr.await(t, from, c.want)
		s.stderr.await(t, from, "no other process takes over; this one goes on")
		if a := s.get("198.51.100.1", "/"); a.StatusCode != 200 {
			t.Errorf("%s: %s", name, a.Status)
		}
		if a := fetch(t, newUnixClient(t, socket), http.MethodGet, "http://socket/", nil, nil); a.StatusCode != 200 {
			t.Errorf("%s: %s at the unix socket", name, a.Status)
		}
	}
	s.configure(t, url, good)
	next := s.successor()
	if status := s.exit(); status != 0 || next.url != s.url {
		t.Errorf("exit status %d, and %s is served, not %s", status, next.url, s.url)
	}
	next.signal(syscall.SIGTERM)
	next.exit()
	for _, file := range []string{socket, s.admin} {
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s is left behind", file)
		}
	}
}

// TestEndsWhileTheNextStarts: a process that is told to end does so, and what it had started to
// take its place ends as well.
func TestEndsWhileTheNextStarts(t *testing.T) {
	t.Parallel()
	url, _, _ := pageBackend(t)
	s, _ := startInstalled(t, url)
	never := filepath.Join(s.dir, "never")
	writeFile(t, never, "#!/bin/sh\n[ \"$1\" != start-successor ] || { \"$0\" & exit 0; }\necho starts >&2\ncat <&5 >/dev/null\n")
	s.install(never)
	s.signal(syscall.SIGUSR2)
	s.stderr.await(t, 0, "starts")
	s.signal(syscall.SIGTERM)
	if status := s.exit(); status != 0 { // which includes that nobody writes its log any more
		t.Errorf("exit status %d:\n%s", status, s.stderr)
	}
	if _, err := os.Stat(s.admin); err == nil {
		t.Error("the admin socket is left behind")
	}
}
