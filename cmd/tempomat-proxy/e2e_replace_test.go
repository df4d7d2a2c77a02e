package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tempomat/limiter/testkit"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/handover"
)

// askers ask for a page without a pause, each over a connection of its own; every fourth
// over a new one for each request, and as many by HTTP/2.
type askers struct {
	asked, failed atomic.Int64
	again         atomic.Int64 // asked a second time by net/http, as the connection ended before
	done          chan struct{}
	all           sync.WaitGroup
}

func startAskers(t *testing.T, url string, clients int) *askers {
	t.Helper()
	return startAskersOver(t, nil, url, clients)
}

// startAskersOver has them ask over TLS, unless that is nil.
func startAskersOver(t *testing.T, secure *tls.Config, url string, clients int) *askers {
	t.Helper()
	a := &askers{done: make(chan struct{})}
	for i := range clients {
		a.all.Go(func() {
			transport := &http.Transport{DisableKeepAlives: i%4 == 3, TLSClientConfig: secure.Clone()}
			switch {
			case i%4 == 2 && secure == nil:
				transport.Protocols = new(http.Protocols)
				transport.Protocols.SetUnencryptedHTTP2(true)
			case i%4 == 2:
				transport.ForceAttemptHTTP2 = true
			case i%8 == 3 && secure != nil: // the other ones do not resume
				transport.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(0)
			}
			defer transport.CloseIdleConnections()
			c := &http.Client{Transport: transport, Timeout: 2 * testkit.Patience}
			for {
				select {
				case <-a.done:
					return
				default:
				}
				if problem := a.ask(t, c, url); problem != "" {
					a.failed.Add(1)
					t.Log(problem)
				}
				a.asked.Add(1)
			}
		})
	}
	t.Cleanup(a.end)
	return a
}

// ask asks once and says what is wrong with the answer.
func (a *askers) ask(t *testing.T, c *http.Client, url string) string {
	tries := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { tries++ }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	res, err := c.Do(req)
	if tries > 1 {
		a.again.Add(1)
	}
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 || string(body) != "page" {
		return fmt.Sprint(res.Status, " ", string(body), " ", err)
	}
	return ""
}

// until waits for that many requests.
func (a *askers) until(n int64) {
	for a.asked.Load() < n {
		time.Sleep(time.Millisecond)
	}
}

func (a *askers) end() {
	select {
	case <-a.done:
	default:
		close(a.done)
	}
	a.all.Wait()
}

// pageBackend answers everything with a page, says of those who log in that they are
// persons, and of what is dear that it cost two CPU-seconds. What is asked for under
// /slow waits until release.
func pageBackend(t *testing.T) (url string, slow <-chan struct{}, release func()) {
	t.Helper()
	came, gate := make(chan struct{}, 16), make(chan struct{})
	release = sync.OnceFunc(func() { close(gate) })
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			came <- struct{}{}
			<-gate
		case "/login":
			w.Header().Set("Tempomat-Standing", "yes")
		case "/dear":
			time.Sleep(50 * time.Millisecond) // in which a hundred CPUs can do as much
			w.Header().Set("Tempomat-Cost", "2")
		}
		_, _ = io.WriteString(w, "page")
	}))
	t.Cleanup(backend.Close)
	t.Cleanup(release)
	return backend.URL, came, release
}

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

// TestReplaceFails: a process that cannot serve leaves the one that runs as it is, and
// so does one that is not to be asked.
func TestReplaceFails(t *testing.T) {
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
		status, _, errs := execute(t, nil, program(t, "tempomat-proxy"), "-replace", "-config", s.file)
		if status != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: status %d, %s", name, status, errs)
		}
		if a := s.get("198.51.100.1", "/"); a.StatusCode != 200 {
			t.Errorf("%s: %s", name, a.Status)
		}
		if a := fetch(t, newUnixClient(t, socket), http.MethodGet, "http://socket/", nil, nil); a.StatusCode != 200 {
			t.Errorf("%s: %s at the unix socket", name, a.Status)
		}
	}
	s.stderr.await(t, 0, "nothing was handed over; this process goes on")
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

// TestReplaceInterrupted plays the process that takes over, up to where one of the two
// ends.
func TestReplaceInterrupted(t *testing.T) {
	url, _, _ := pageBackend(t)
	front := filepath.Join(tempDir(t), "front.sock")
	s := startProxy(t, url, "state: off\nlisten: [\"127.0.0.1:0\", \"unix:"+front+"\"]\n")
	ask := func() (*handover.Taker, error) {
		taker, err := handover.Ask(t.Context(), s.admin, handoverLimits())
		if err != nil {
			return nil, err
		}
		return taker, taker.Parts(func(string, []byte) error { return nil })
	}
	taker, err := ask()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(); !errors.Is(err, handover.ErrWithdrawn) || !strings.Contains(err.Error(), "another process is taking over") {
		t.Errorf("two take over at the same time: %v", err)
	}
	taker.Close() // as if it were killed
	s.stderr.await(t, 0, "nothing was handed over; this process goes on")
	for range 4 {
		if a := s.get("198.51.100.1", "/"); a.StatusCode != 200 {
			t.Error(a.Status)
		}
	}

	if taker, err = ask(); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGKILL)
	<-s.ended
	if err := taker.Serving(taker.Sockets); err != nil {
		t.Errorf("the process that ran was killed: %v", err)
	}
	for _, l := range taker.Sockets {
		c, err := net.Dial(l.Addr().Network(), l.Addr().String())
		if err != nil {
			t.Errorf("nobody listens at %s: %v", l.Addr(), err)
			continue
		}
		_ = c.Close()
	}
	handover.Close(taker.Sockets)
	for _, file := range []string{front, s.admin} {
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s is left behind", file)
		}
	}
}

// TestReplaceAsItEnds: a process that is told to end while another one takes over leaves
// the files of the sockets to that.
func TestReplaceAsItEnds(t *testing.T) {
	url, _, _ := pageBackend(t)
	front := filepath.Join(tempDir(t), "front.sock")
	s := startProxy(t, url, "state: off\nlisten: [\"unix:"+front+"\"]\n")
	taker, err := handover.Ask(t.Context(), s.admin, handoverLimits())
	if err != nil {
		t.Fatal(err)
	}
	if err := taker.Parts(func(string, []byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGTERM)
	if status := s.exit(); status != 0 {
		t.Errorf("exit status %d:\n%s", status, s.stderr)
	}
	if err := taker.Serving(taker.Sockets); err != nil {
		t.Error(err)
	}
	for _, file := range []string{front, s.admin} {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s is gone: %v", file, err)
		}
	}
	handover.Close(taker.Sockets)
}
