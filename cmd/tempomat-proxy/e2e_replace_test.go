package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/proxy/admin/api"
)

// successor starts a process in the place of another one, and waits until it is.
func (s *sidecarProcess) successor(env ...string) *sidecarProcess {
	s.t.Helper()
	next := *s
	next.process = startProcess(s.t, env, program(s.t, "tempomat-proxy"), "-replace", "-config", s.file)
	line, _ := next.stderr.await(s.t, 0, `"msg":"serving"`)
	next.url = "http://" + parseLog(s.t, line).Listen[0]
	return &next
}

// restartsByReplace has processes replace one another while clients ask, and the figures
// of that.
func restartsByReplace(t *testing.T, clients, restarts int, requests int64) *askers {
	url, _, _ := pageBackend(t)
	s := startProxy(t, url, "state: "+filepath.Join(tempDir(t), "state")+"\nlog: {access: off}\n")
	a := startAskers(t, s.url+"/", clients)
	var before []*sidecarProcess
	for i := range restarts {
		a.until(requests * int64(i+1) / int64(restarts+1))
		before = append(before, s)
		if s = s.successor(); s.url != before[0].url {
			t.Fatalf("it serves %s, not %s", s.url, before[0].url)
		}
	}
	a.until(requests)
	a.end()
	for _, p := range before {
		if status := p.exit(); status != 0 || p.stderr.count(0, "cut what did not finish") > 0 {
			t.Errorf("exit status %d:\n%s", status, p.stderr)
		}
	}
	return a
}

// TestReplaceRefusesNobody is TestRestartsRefuseNobody without a supervisor.
func TestReplaceRefusesNobody(t *testing.T) {
	a := restartsByReplace(t, 16, 4, 400)
	if a.failed.Load() > 0 {
		t.Errorf("%d of %d requests failed", a.failed.Load(), a.asked.Load())
	}
}

// TestReplaceKeepsAccounts: what clients owe, and who is known, are as they were.
func TestReplaceKeepsAccounts(t *testing.T) {
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

// TestReplaceNobody: without a process that runs it just starts.
func TestReplaceNobody(t *testing.T) {
	url, _, _ := pageBackend(t)
	s := &sidecarProcess{dir: tempDir(t)}
	s.file, s.admin, s.process = filepath.Join(s.dir, "tempomat.yaml"), filepath.Join(s.dir, "admin.sock"), &process{t: t}
	s.configure(t, url, "state: off\n")
	s = s.successor()
	s.stderr.await(t, 0, "there is no process to replace")
	if a := s.get("198.51.100.1", "/"); a.StatusCode != 200 {
		t.Error(a.Status)
	}
	s.signal(syscall.SIGTERM)
	if status := s.exit(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if _, err := os.Stat(s.admin); err == nil {
		t.Error("the admin socket is left behind")
	}
}

// TestReplaceTwice: while the first process still answers what it was asked, the second
// is replaced, too. What is asked of the admin API is answered by the newest, and the
// socket is closed as that ends.
func TestReplaceTwice(t *testing.T) {
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

// TestReplaceListensElsewhere: what is alike is taken over, what is new is opened, and
// what is left is closed.
func TestReplaceListensElsewhere(t *testing.T) {
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

// TestReplaceTellsSystemd which process is the service now, and not that it ends.
func TestReplaceTellsSystemd(t *testing.T) {
	path := filepath.Join(tempDir(t), "notify")
	systemd, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	s := startProxyWith(t, []string{"NOTIFY_SOCKET=" + path}, nil, "http://127.0.0.1:9", "state: off\n")
	next := s.successor("NOTIFY_SOCKET=" + path)
	s.exit()
	pid := next.cmd.Process.Pid
	const keep = "FDSTORE=1\nFDNAME=kept-127.0.0.1%3A0" // which it knows from the first time
	want := map[string]int{keep: 2, "READY=1": 1, fmt.Sprint("MAINPID=", pid): 1, fmt.Sprint("READY=1\nMAINPID=", pid): 1}
	got := map[string]int{}
	buffer := make([]byte, 4096)
	for range 5 {
		_ = systemd.SetReadDeadline(time.Now().Add(testkit.Patience))
		n, err := systemd.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		got[string(buffer[:n])]++
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("systemd heard %v, want %v", got, want)
	}
}

// TestReplaceAfterHandedOver: sockets that a supervisor opened go on to the process that
// takes over, and their addresses are the supervisor's affair.
func TestReplaceAfterHandedOver(t *testing.T) {
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
	s := &sidecarProcess{dir: tempDir(t)}
	s.file, s.admin, s.process = filepath.Join(s.dir, "tempomat.yaml"), filepath.Join(s.dir, "admin.sock"), &process{t: t}
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

// TestReplaceSharesOn: the port where sidecars tell each other is free as the process
// that takes over wants it.
func TestReplaceSharesOn(t *testing.T) {
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
