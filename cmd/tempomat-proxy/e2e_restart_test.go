package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/proxy/admin/api"
)

// supervised returns a socket that stays open whichever process serves it, like a socket of systemd.
func supervised(t *testing.T, network, at string) (net.Listener, *os.File) {
	t.Helper()
	l, err := net.Listen(network, at)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	socket, err := l.(interface{ File() (*os.File, error) }).File()
	testkit.Must(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	return l, socket
}

// handOver starts the program with open sockets, as systemd does.
func (s *sidecarProcess) handOver(files []*os.File, names []string, env ...string) {
	s.t.Helper()
	env = append(env, fmt.Sprint("LISTEN_FDS=", len(files)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	s.process = testkit.StartWith(s.t, files, env, "/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, program(s.t, "tempomat-proxy"), "-config", s.file)
}

// refuses reports whether no program listens at an address.
func refuses(address string) bool {
	c, err := net.Dial("tcp", address)
	if err == nil {
		_ = c.Close()
	}
	return err != nil
}

// TestSupervisedRestartsRefuseNobody: each process that is started with a supervisor's sockets serves them, and so does
// its successor. The supervisor keeps them open.
func TestSupervisedRestartsRefuseNobody(t *testing.T) {
	t.Parallel()
	path := filepath.Join(tempDir(t), "front.sock")
	l, tcp := supervised(t, "tcp", "127.0.0.1:0")
	_, unix := supervised(t, "unix", path)
	s := unstarted(t)
	s.configure(t, pageBackend(t), "state: off\nlisten: 192.0.2.1:1\nlog: {access: off}\n")
	start := func() {
		s.handOver([]*os.File{tcp, unix}, nil)
		s.serves()
		s.Stderr.Await(t, 0, `"msg":"not serving a listen address`)
	}
	start()
	underLoad(t, nil, "http://"+l.Addr().String()+"/", 4, func(i int) {
		if i == 3 {
			before := s
			s = s.successor()
			before.Exits(0)
			return
		}
		s.Signal(os.Interrupt)
		s.Exits(0)
		start()
	})
	if a := fetch(t, newUnixClient(t, path), http.MethodGet, "http://socket/", nil, nil); a.StatusCode != 200 {
		t.Error(a.Status)
	}
	s.Signal(syscall.SIGTERM)
	s.Exits(0)
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the supervisor's file is gone: %v", err)
	}
}

// TestHandedOverNonsense: the proxy reports a descriptor that isn't a socket, a socket at the backend's address, and
// one that may need TLS.
func TestHandedOverNonsense(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	testkit.Must(t, err)
	defer null.Close()
	l, own := supervised(t, "tcp", "127.0.0.1:0")
	certificate, key := testkit.NewAuthority(t).Issue(t, time.Now().AddDate(0, 3, 0), "site.example")
	dir := tempDir(t)
	testkit.WriteCertificate(t, certificate, key, filepath.Join(dir, "a.crt"), filepath.Join(dir, "a.key"))
	for want, c := range map[string]struct {
		file          *os.File
		backend, yaml string
	}{
		"isn't a listening socket": {null, "127.0.0.1:1", "listen: 192.0.2.1:1\n"},
		"requests would loop":      {own, l.Addr().String(), "listen: 192.0.2.1:1\n"},
		"but listen has no entry":  {own, "127.0.0.1:1", "listen: [\"192.0.2.1:1\", \"192.0.2.1:2 tls\"]\ntls: {certificates: " + dir + "}\n"},
	} {
		s := unstarted(t)
		s.configure(t, "http://"+c.backend, c.yaml)
		s.handOver([]*os.File{c.file}, nil)
		s.Exits(1)
		s.Stderr.Await(t, 0, want)
	}
}

// TestKeptRestartsRefuseNobody: the manager keeps the sockets while no process runs, both after a requested end and
// after a crash. After SIGINT, another program can use the port while requests finish.
func TestKeptRestartsRefuseNobody(t *testing.T) {
	t.Parallel()
	m := newManaged(t, pageBackend(t), "state: off\nlog: {access: off}\n")
	m.begins()
	url := m.url
	again := func() {
		t.Helper()
		if m.begins(); m.url != url {
			t.Fatalf("it serves %s, not %s", m.url, url)
		}
		m.Stderr.Await(t, 0, `"msg":"serving sockets that the service manager kept"`)
	}
	underLoad(t, nil, url+"/", 3, func(int) {
		m.Signal(syscall.SIGTERM)
		m.Exits(0)
		if refuses(strings.TrimPrefix(url, "http://")) {
			t.Error("refused while no process runs")
		}
		again()
	})
	m.Signal(syscall.SIGKILL)
	m.Exit()
	again()
	m.served("198.51.100.1")
	m.Signal(syscall.SIGINT)
	m.Stderr.Await(t, 0, `"msg":"draining"`)
	testkit.Same(t, "", m.names(), "kept after SIGINT")
}

// TestKeptElsewhere: sockets that aren't in listen any more are closed, even if they conflict with new addresses in
// listen.
func TestKeptElsewhere(t *testing.T) {
	t.Parallel()
	backend, port := pageBackend(t), freePort(t)
	m := newManaged(t, backend, "state: off\nlisten: [\"127.0.0.1:"+port+"\", \"unix:"+filepath.Join(tempDir(t), "front")+"\"]\n")
	again := func(listen string) {
		t.Helper()
		m.Kill()
		m.configure(t, backend, "state: off\nlisten: ["+listen+"]\n")
		m.begins()
	}
	is := func(want string) {
		t.Helper()
		testkit.Same(t, want, m.names(), "kept")
	}
	m.begins()
	is("kept-127.0.0.1%3A" + port) // but not the Unix socket
	again(`":` + port + `"`)       // conflicts with the old socket
	is("kept-%3A" + port)
	again(`"[::]:` + port + `"`) // the same address, written differently
	m.Stderr.Await(t, 0, `"msg":"serving sockets that the service manager kept"`)
	is("kept-%5B%3A%3A%5D%3A" + port)
	again(`"127.0.0.1:0"`)
	is("kept-127.0.0.1%3A0")
	testkit.Eventually(t, "the port that nobody serves is free", func() bool { return refuses("127.0.0.1:" + port) })

	// A process that replaces another one decides which sockets are kept from then on.
	m.configure(t, backend, "state: off\nlisten: \"127.0.0.1:"+port+"\"\n")
	next := m.successor()
	m.Exit()
	m.sidecarProcess = next
	is("kept-127.0.0.1%3A" + port)
}

// TestKeptByWhatCannotServe: a process that can't start gives up the sockets, so clients don't wait in vain.
func TestKeptByWhatCannotServe(t *testing.T) {
	t.Parallel()
	backend := pageBackend(t)
	taken, _ := supervised(t, "tcp", "127.0.0.1:0")
	for name, yaml := range map[string]string{
		"a broken file":    "throttle: {mode: fast}\n",
		"no certificate":   "tls: {certificates: [{certificate: /none, key: /none}]}\n",
		"an address taken": "listen: [\"127.0.0.1:0\", \"" + taken.Addr().String() + "\"]\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newManaged(t, backend, "state: off\n")
			m.begins()
			m.Kill()
			m.configure(t, backend, "state: off\n"+yaml)
			m.begin()
			m.Exits(1)
			testkit.Same(t, "", m.names(), "kept")
			testkit.Eventually(t, "who connects is refused, and does not wait for nobody", func() bool { return refuses(strings.TrimPrefix(m.url, "http://")) })
		})
	}
}

// TestKeptBesideASocketUnit: if there is a socket unit, the proxy serves the unit's sockets, and no others are kept.
func TestKeptBesideASocketUnit(t *testing.T) {
	t.Parallel()
	m := newManaged(t, pageBackend(t), "state: off\n")
	m.begins()
	m.Kill()
	l, socket := supervised(t, "tcp", "127.0.0.1:0")
	files, names := m.keeps()
	m.handOver(append([]*os.File{socket}, files...), []string{"tempomat-proxy.socket", names[0]}, "NOTIFY_SOCKET="+m.notify)
	closeFiles(files)
	m.serves()
	if want := "http://" + l.Addr().String(); m.url != want || m.names() != "" {
		t.Errorf("it serves %s, want %s; kept are %q", m.url, want, m.names())
	}
}

// TestNotify: systemd gets all messages that it expects.
func TestNotify(t *testing.T) {
	t.Parallel()
	m := newManaged(t, "http://127.0.0.1:9", "")
	m.begins()
	hears := func(all ...string) {
		t.Helper()
		for _, want := range all {
			got := m.next().text
			if at, reloads := strings.CutPrefix(got, "RELOADING=1\nMONOTONIC_USEC="); reloads {
				if usec, err := strconv.ParseUint(strings.TrimSuffix(at, "\n"), 10, 64); err != nil || usec == 0 {
					t.Fatalf("reloads at %q: %v", at, err)
				}
				got = "RELOADING=1"
			}
			if got != want {
				t.Fatalf("systemd hears %q, want %q", got, want)
			}
		}
	}
	hears("BARRIER=1", "FDSTORE=1\nFDNAME=kept-127.0.0.1%3A0", "READY=1")
	m.Signal(syscall.SIGHUP)
	hears("RELOADING=1", "READY=1")
	m.configure(t, "http://127.0.0.1:9", "throttle: {mode: fast}\n")
	m.Signal(syscall.SIGHUP)
	hears("RELOADING=1", "READY=1") // the proxy continues despite an invalid file
	m.Signal(syscall.SIGTERM)
	hears("STOPPING=1")
}

// installed is a sidecar that runs from a program file of its own, which a test may replace.
type installed struct {
	*sidecarProcess
	program string
}

// install replaces the program's file, as a package manager does.
func (s *installed) install(text string) {
	s.t.Helper()
	next := filepath.Join(s.dir, "next")
	testkit.WriteFile(s.t, next, text, 0o755)
	testkit.Must(s.t, os.Rename(next, s.program))
}

// startInstalled starts an installed sidecar that sends its messages for systemd to a manager.
func startInstalled(t *testing.T, m *manager) *installed {
	t.Helper()
	file := copyOf(t, program(t, "tempomat-proxy"), filepath.Join(tempDir(t), "tempomat-proxy"))
	env := []string{"NOTIFY_SOCKET=" + m.notify, "WATCHDOG_USEC=300000"}
	return &installed{startProxyAs(t, env, []string{file}, pageBackend(t), "state: off\nlog: {access: off}\n"), file}
}

func copyOf(t *testing.T, from, to string) string {
	t.Helper()
	testkit.WriteFile(t, to, testkit.ReadFile(t, from), 0o755)
	return to
}

// successor makes a process start its successor, and waits until the successor serves. Both write to the same log.
func (s *sidecarProcess) successor() *sidecarProcess {
	s.t.Helper()
	from := s.Stderr.Len()
	s.Signal(syscall.SIGUSR2)
	line, _ := s.Stderr.Await(s.t, from, `"msg":"serving"`)
	said := parseServed(s.t, line)
	next := *s
	next.process = s.Successor(said.PID)
	next.url = "http://" + said.Listen[0]
	return &next
}

// TestSucceed: at SIGUSR2, the program that is now at the path of the running one takes over, and no connection is
// refused. A program that can't start changes nothing. Systemd is informed which process is the service.
func TestSucceed(t *testing.T) {
	t.Parallel()
	systemd := startManager(t)
	s := startInstalled(t, systemd)
	var next *sidecarProcess
	underLoad(t, nil, s.url+"/", 2, func(i int) {
		if i == 0 {
			s.install("no program")
			s.Signal(syscall.SIGUSR2)
			s.Stderr.Await(t, 0, `"level":"error"`, "the handover to a new process failed; this process continues")
			return
		}
		s.install(testkit.ReadFile(t, program(t, "tempomat-proxy")))
		next = s.successor()
	})
	hears := func(text string) (said notice) {
		t.Helper()
		for !strings.Contains(said.text, text) {
			said = systemd.next()
		}
		return said
	}
	if want := "MAINPID=" + strconv.Itoa(next.Proc.Pid); !strings.Contains(hears("MAINPID=").text, want) {
		t.Errorf("systemd was not told that process %d is the service", next.Proc.Pid)
	}
	if at, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", next.Proc.Pid)); err != nil || at != s.program {
		t.Errorf("the service is %q %v, want %q", at, err, s.program)
	}
	s.Exits(0)
	for hears("WATCHDOG=1").pid != next.Proc.Pid {
	}
}

// TestFirstProcessOfAContainer: the container would end with its first process. This process therefore stays as long as
// a successor runs, and forwards signals.
func TestFirstProcessOfAContainer(t *testing.T) {
	t.Parallel()
	testkit.Root(t, "only root makes a space of process numbers")
	backend, came, release := slowBackend(t)
	s := startProxyWith(t, nil, []string{"unshare", "--pid", "--fork", "--mount-proc"}, backend, "state: off\n")
	inside := testkit.ReadFile(t, fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", s.Proc.Pid))
	first, err := strconv.Atoi(strings.TrimSpace(inside))
	testkit.Must(t, err)
	signal := func(sig syscall.Signal, want string) {
		t.Helper()
		from := s.Stderr.Len()
		testkit.Must(t, syscall.Kill(first, sig))
		s.Stderr.Await(t, from, want)
	}
	long := s.later(nil, "/slow")
	<-came
	signal(syscall.SIGUSR2, `"msg":"draining"`)
	signal(syscall.SIGHUP, `"msg":"reloaded"`) // the successor reloads while the first process drains
	release()
	testkit.Same(t, "200 OK", <-long, "the request in progress")
	s.Stderr.Await(t, 0, `"msg":"ended"`)
	signal(syscall.SIGUSR2, `"msg":"ended"`)
	s.served("198.51.100.1")
	signal(syscall.SIGTERM, `"msg":"ended"`)
	s.Exits(0)
}

// TestSuccessorKnowsClients: a person keeps the standing, and the history continues. Debts are forgiven, as after a
// restart.
func TestSuccessorKnowsClients(t *testing.T) {
	t.Parallel()
	const person, debtor = "203.0.113.5", "203.0.113.6"
	s := startProxy(t, pageBackend(t), "state: "+filepath.Join(tempDir(t), "state")+"\ncpuCount: 100\ncost: {source: header}\nclasses: {slash32: {share: 0.0001, burst: 0s}}\n")
	s.get(debtor, "/dear")
	testkit.Eventually(t, "a debt", func() bool { r, _ := s.account("slash32", debtor); return r.Level < -1 })
	login := clicked(person)
	fetch(t, newClient(t), http.MethodGet, s.url+"/login", login, nil)
	fetch(t, newClient(t), http.MethodGet, s.url+"/", login, nil)
	was, _ := s.account("slash32", person)
	s = s.successor()
	if r, known := s.account("slash32", debtor); known && r.Level < 0 {
		t.Errorf("the debtor still has %.3f", r.Level)
	}
	fetch(t, newClient(t), http.MethodGet, s.url+"/", login, nil)
	if is, _ := s.account("slash32", person); was.Client == nil || is.Client == nil || was.Client.Standing <= 1 || is.Client.Standing != was.Client.Standing {
		t.Errorf("the person stood at %+v and stands at %+v", was.Client, is.Client)
	}
}

// TestHistoryOfProcesses: the history survives a replacement of the process, a restart and a crash. It disappears when
// it is switched off.
func TestHistoryOfProcesses(t *testing.T) {
	t.Parallel()
	url := pageBackend(t)
	state := filepath.Join(tempDir(t), "state")
	yaml := "state: " + state + "\n"
	p := startProxy(t, url, yaml)
	tells := func(want uint64) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprint(want, " requests are told of"), func() (told bool) {
			var reply api.HistoryReply
			p.ask("/v1/history?hours=2", &reply)
			n, keys := uint64(0), uint64(0)
			for _, h := range reply.Hours {
				n += h.Requests
				for _, c := range h.Classes[:min(1, len(h.Classes))] { // an hour that has just begun has no classes
					for _, k := range c.Keys {
						keys += k.Requests
					}
				}
			}
			return n == want && keys == want
		})
	}
	again := func() {
		p.Kill()
		p.startAgain()
	}
	for range 3 {
		p.get("203.0.113.9", "/page?x=1")
	}
	tells(3)
	p.get("203.0.113.9", "/page?x=1")
	p = p.successor() // the successor also gets requests that were not added up yet
	tells(4)
	again()
	tells(4)
	testkit.Must(t, p.Proc.Kill())
	<-p.Ended
	again()
	tells(4)
	p.configure(t, url, yaml+"history: {hours: 0}\n")
	again()
	testkit.Same(t, 404, p.ask("/v1/history", nil), "the status of a history that is switched off")
}

// TestSucceedTwice: while the first process still answers its requests, the second one is also replaced. The
// newest process answers the admin API, and the socket is closed when it ends.
func TestSucceedTwice(t *testing.T) {
	t.Parallel()
	url, slow, release := slowBackend(t)
	first := startProxy(t, url, "state: off\n")
	answer := first.later(from("198.51.100.1"), "/slow")
	<-slow
	second := first.successor()
	first.Stderr.Await(t, 0, `"msg":"draining"`)
	second.get("198.51.100.2", "/")
	second.get("198.51.100.2", "/")
	third := second.successor()
	second.Exits(0)
	third.get("198.51.100.3", "/")
	testkit.Same(t, 1, third.stats().Counters["requests"], "requests at the newest process, by its own account")
	release()
	testkit.Same(t, "200 OK", <-answer, "the first process's request")
	first.Exits(0)
	if status, out, errs := third.doctor("status"); status != 0 {
		t.Errorf("the processes before have taken the socket away: %s%s", out, errs)
	}
	third.Signal(syscall.SIGTERM)
	third.Exits(0)
	if _, err := os.Stat(third.admin); err == nil {
		t.Error("the admin socket is left behind")
	}
}

// TestSuccessorListensElsewhere: a successor takes over the sockets for its addresses, opens new addresses, and closes
// the other sockets.
func TestSuccessorListensElsewhere(t *testing.T) {
	t.Parallel()
	url, dir := pageBackend(t), tempDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	listens := func(addresses ...string) string {
		return "state: off\nlisten: [\"" + strings.Join(addresses, `", "`) + "\"]\n"
	}
	s := startProxy(t, url, listens("127.0.0.1:0", "unix:"+at("stays"), "unix:"+at("goes")))
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.url, "http://"))
	s.configure(t, url, listens("localhost:"+port, "unix:"+at("new"), "unix:"+at("stays")))
	next := s.successor()
	s.Exit()
	testkit.Same(t, s.url, next.url, "it serves")
	next.served("198.51.100.1")
	for _, name := range []string{"stays", "new"} {
		testkit.Same(t, 200, fetch(t, newUnixClient(t, at(name)), http.MethodGet, "http://socket/", nil, nil).StatusCode, "%s: status", name)
	}
	if _, err := os.Stat(at("goes")); err == nil {
		t.Error("the file of the socket that is served no more is left behind")
	}
}

// TestSuccessorSharesOn: the port on which instances share accounts is free when the new process needs it.
func TestSuccessorSharesOn(t *testing.T) {
	t.Parallel()
	at := "127.0.0.1:" + freePort(t)
	s := startProxy(t, pageBackend(t), fmt.Sprintf("state: off\ncoordination: {kind: gossip, gossip: {listen: %q, join: [%q]}}\n", at, at))
	for range 2 {
		old := s
		s = s.successor()
		var reply api.ShareReply
		testkit.Eventually(t, "it shares", func() bool {
			s.ask("/v1/share", &reply)
			return reply.Trouble != "" || reply.State != nil
		})
		testkit.Same(t, "", reply.Trouble, "the trouble with sharing")
		old.Exit()
		if s.Stderr.Count(0, `"level":"error"`) > 0 {
			t.Errorf("errors:\n%s", s.Stderr)
		}
	}
}

// TestSuccessorFails: if a successor can't serve, the running process continues unchanged.
func TestSuccessorFails(t *testing.T) {
	t.Parallel()
	url, dir := pageBackend(t), tempDir(t)
	taken, _ := supervised(t, "tcp", "127.0.0.1:0")
	socket, state := filepath.Join(dir, "front.sock"), filepath.Join(dir, "state")
	good := "state: " + state + "\nlisten: [\"127.0.0.1:0\", \"unix:" + socket + "\"]\n"
	s := startProxy(t, url, good)
	for name, c := range map[string]struct{ yaml, want string }{
		"an address is taken": {strings.Replace(good, "]", ", \""+taken.Addr().String()+"\"]", 1), "address already in use"},
		"it is wrong":         {"throttle: {mode: fast}\n", "throttle.mode"},
	} {
		s.configure(t, url, c.yaml)
		from := s.Stderr.Len()
		s.Signal(syscall.SIGUSR2)
		s.Stderr.Await(t, from, c.want)
		s.Stderr.Await(t, from, "the handover to a new process failed; this process continues")
		s.served("198.51.100.1")
		testkit.Same(t, 200, fetch(t, newUnixClient(t, socket), http.MethodGet, "http://socket/", nil, nil).StatusCode, "%s: status at the unix socket", name)
	}
	s.configure(t, url, good)
	next := s.successor()
	if s.Exits(0); next.url != s.url {
		t.Errorf("%s is served, not %s", next.url, s.url)
	}
	next.Kill()
	for _, file := range []string{socket, s.admin} {
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s is left behind", file)
		}
	}
}

// TestEndsWhileTheNextStarts: after SIGTERM, a process ends, and so does the successor that it has just
// started.
func TestEndsWhileTheNextStarts(t *testing.T) {
	t.Parallel()
	s := startInstalled(t, startManager(t))
	s.install("#!/bin/sh\n[ \"$1\" != start-successor ] || { \"$0\" & exit 0; }\necho starts >&2\ncat <&4 >/dev/null\n")
	s.Signal(syscall.SIGUSR2)
	s.Stderr.Await(t, 0, "starts")
	s.Signal(syscall.SIGTERM)
	s.Exits(0) // also waits until no process writes to the log any more
	if _, err := os.Stat(s.admin); err == nil {
		t.Error("the admin socket is left behind")
	}
}

// TestDrain: requests in progress at SIGTERM are finished, even those that wait.
func TestDrain(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	for _, mode := range []string{"cap", "cooperative"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := startProxy(t, backend.url, "throttle: {mode: "+mode+`, maxHold: 1m}
cost: {source: wall}
cpuCount: 1
classes: {slash32: {share: 1, burst: 0s}, slash24: off, slash16: off, userAgent: off}
`)
			// One request runs. Another client's two requests cost a second each, so the second of these waits
			// for the first, or is held for it.
			running := s.later(from("198.51.100.1"), "/sleep.php?ms=1500")
			one := s.later(from("198.51.100.2"), "/sleep.php?ms=1000")
			testkit.Eventually(t, "two running requests", func() bool {
				a, _ := s.account("slash32", "198.51.100.1")
				b, _ := s.account("slash32", "198.51.100.2")
				return a.Running == 1 && b.Running == 1
			})
			two := s.later(from("198.51.100.2"), "/sleep.php?ms=1000")
			testkit.Eventually(t, "one that is held", func() bool { return s.stats().Held == 1 })
			s.Signal(syscall.SIGTERM)
			s.Stderr.Await(t, 0, `"msg":"draining"`)
			testkit.Eventually(t, "a refused connection", func() bool { return refuses(strings.TrimPrefix(s.url, "http://")) })
			for name, got := range map[string]<-chan string{"running": running, "first": one, "second": two} {
				testkit.Same(t, "200 OK", <-got, "%s", name)
			}
			s.Exits(0)
			if s.Stderr.Count(0, "aborted requests that did not finish in time") > 0 {
				t.Errorf("something was cut:\n%s", s.Stderr)
			}
		})
	}
}
