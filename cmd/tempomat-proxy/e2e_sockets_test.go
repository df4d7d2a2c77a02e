package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/proxy/handover"
	"tempomat/proxy/handover/handovertest"
)

// supervised is a socket that is open whatever process serves it, as systemd's are.
func supervised(t *testing.T) (net.Listener, *os.File) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	return l, socket
}

// restartsByHandedOver starts the program again and again, with a socket that is
// handed over, as systemd does, while clients ask all the time.
func restartsByHandedOver(t *testing.T, clients, restarts int, requests int64) *askers {
	backend, _, _ := pageBackend(t)
	l, socket := supervised(t)
	dir := tempDir(t)
	file := filepath.Join(dir, "tempomat.yaml")
	writeFile(t, file, fmt.Sprintf("backend: %s\nlisten: 192.0.2.1:1\nstate: %s\nadmin: {listen: off}\nlog: {access: off}\n", backend, filepath.Join(dir, "state")))
	start := func() *process {
		p := startProcessWith(t, []*os.File{socket}, []string{"LISTEN_FDS=1"}, "/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, program(t, "tempomat-proxy"), "-config", file)
		p.stderr.await(t, 0, `"msg":"serving"`)
		p.stderr.await(t, 0, `"msg":"not serving a listen address`)
		return p
	}
	p := start()
	a := startAskers(t, "http://"+l.Addr().String()+"/", clients)
	for i := range restarts {
		a.until(requests * int64(i+1) / int64(restarts+1))
		p.signal(os.Interrupt)
		if status := p.exit(); status != 0 {
			t.Errorf("exit status %d:\n%s", status, p.stderr)
		}
		p = start()
	}
	a.until(requests)
	a.end()
	return a
}

// TestRestartsRefuseNobody is for systemd's way, TestSucceed for ours.
func TestRestartsRefuseNobody(t *testing.T) {
	t.Parallel()
	a := restartsByHandedOver(t, 16, 4, 400)
	if a.failed.Load() > 0 {
		t.Errorf("%d of %d requests failed", a.failed.Load(), a.asked.Load())
	}
}

// TestHandedOverNonsense: what is no socket is told, and a socket that the backend's address leads to.
func TestHandedOverNonsense(t *testing.T) {
	t.Parallel()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	l, own := supervised(t)
	for want, f := range map[string]*os.File{"is no listening socket": null, "requests would go in a circle": own} {
		p := startProcessWith(t, []*os.File{f}, []string{"LISTEN_FDS=1", "TEMPOMAT_BACKEND=http://" + l.Addr().String(), "TEMPOMAT_ADMIN_LISTEN=off"},
			"/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, program(t, "tempomat-proxy"), "-config", os.DevNull)
		if p.exit() == 0 {
			t.Error("it ended as if all were well")
		}
		p.stderr.await(t, 0, want)
	}
}

// managed is a sidecar that a service manager restarts, which keeps its sockets.
type managed struct {
	*sidecarProcess
	manager *handovertest.Manager
}

func newManaged(t *testing.T, backend, yaml string) *managed {
	t.Helper()
	m := &managed{manager: handovertest.StartManager(t), sidecarProcess: unstarted(t)}
	m.configure(t, backend, yaml)
	return m
}

// begin starts the program with all that the manager keeps.
func (m *managed) begin(args ...string) {
	m.t.Helper()
	t := m.t
	files, names := m.kept()
	env := []string{
		"NOTIFY_SOCKET=" + m.manager.Path, fmt.Sprint("LISTEN_FDS=", len(files)), "LISTEN_FDNAMES=" + strings.Join(names, ":"),
	}
	command := append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, program(t, "tempomat-proxy"), "-config", m.file}, args...)
	m.process = startProcessWith(t, files, env, "/bin/sh", command...)
	closeFiles(files)
}

// kept is what is kept when the manager has heard all that it was told.
func (m *managed) kept() (files []*os.File, names []string) {
	m.t.Helper()
	if err := (handover.Store{Notify: m.manager.Path}).Wait(); err != nil {
		m.t.Fatal(err)
	}
	return m.manager.Kept(m.t)
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // the process has its own
	}
}

// names are those of what is kept, each once: the manager does not see what it has.
func (m *managed) names() string {
	m.t.Helper()
	files, names := m.kept()
	closeFiles(files)
	return strings.Join(slices.Compact(names), " ")
}

// TestKeptRestartsRefuseNobody: the manager keeps the sockets while no process runs,
// after an end that was asked for and after a crash.
func TestKeptRestartsRefuseNobody(t *testing.T) {
	t.Parallel()
	backend, _, _ := pageBackend(t)
	m := newManaged(t, backend, "state: off\nlog: {access: off}\n")
	m.begin()
	m.serves()
	url := m.url
	a := startAskers(t, url+"/", 8)
	for i, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGTERM} {
		a.until(int64(100 * (i + 1)))
		m.signal(signal)
		if status := m.exit(); status != 0 {
			t.Errorf("exit status %d:\n%s", status, m.stderr)
		}
		waits, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatalf("refused while no process runs: %v", err)
		}
		_ = waits.Close()
		m.begin()
		if m.serves(); m.url != url {
			t.Fatalf("it serves %s, not %s", m.url, url)
		}
		m.stderr.await(t, 0, `"msg":"serves sockets that the service manager has kept"`)
	}
	a.until(400)
	a.end()
	if a.failed.Load() > 0 {
		t.Errorf("%d of %d requests failed", a.failed.Load(), a.asked.Load())
	}
	m.signal(syscall.SIGKILL)
	m.exit()
	m.begin()
	if m.serves(); m.url != url {
		t.Errorf("after a crash it serves %s, not %s", m.url, url)
	}
	if answer := m.get("198.51.100.1", "/"); answer.StatusCode != 200 {
		t.Error(answer.Status)
	}
}

// TestKeptElsewhere: what listen does not name any more is kept no more, even where it is in
// the way of what listen names now.
func TestKeptElsewhere(t *testing.T) {
	t.Parallel()
	backend, _, _ := pageBackend(t)
	port := freePort(t)
	m := newManaged(t, backend, "state: off\nlisten: [\"127.0.0.1:"+port+"\", \"unix:"+filepath.Join(tempDir(t), "front")+"\"]\n")
	again := func(listen string) {
		t.Helper()
		m.signal(syscall.SIGTERM)
		m.exit()
		m.configure(t, backend, "state: off\nlisten: ["+listen+"]\n")
		m.begin()
		m.serves()
	}
	is := func(want string) {
		t.Helper()
		if got := m.names(); got != want {
			t.Errorf("it keeps %q, want %q", got, want)
		}
	}
	m.begin()
	m.serves()
	is("kept-127.0.0.1%3A" + port) // and not the unix socket
	again(`":` + port + `"`)       // the old one would be in the way
	is("kept-%3A" + port)
	again(`"[::]:` + port + `"`) // the same, in other words
	m.stderr.await(t, 0, `"msg":"serves sockets that the service manager has kept"`)
	is("kept-%5B%3A%3A%5D%3A" + port)
	again(`"127.0.0.1:0"`)
	is("kept-127.0.0.1%3A0")
	testkit.Eventually(t, "the port that nobody serves is free", func() bool {
		l, err := net.Listen("tcp", ":"+port)
		if err == nil {
			_ = l.Close()
		}
		return err == nil
	})

	// A process that replaces another one tells what is kept from then on.
	m.configure(t, backend, "state: off\nlisten: \"127.0.0.1:"+port+"\"\n")
	next := m.successor()
	m.exit()
	m.sidecarProcess = next
	is("kept-127.0.0.1%3A" + port)
}

// TestKeptByWhatCannotServe: a process that cannot start gives the sockets up, so that nobody
// waits for what does not come.
func TestKeptByWhatCannotServe(t *testing.T) {
	t.Parallel()
	backend, _, _ := pageBackend(t)
	taken, _ := supervised(t)
	for name, yaml := range map[string]string{
		"a broken file":    "throttle: {mode: fast}\n",
		"no certificate":   "tls: {certificates: [{certificate: /none, key: /none}]}\n",
		"an address taken": "listen: [\"127.0.0.1:0\", \"" + taken.Addr().String() + "\"]\n",
	} {
		t.Run(name, func(t *testing.T) {
			m := newManaged(t, backend, "state: off\n")
			m.begin()
			m.serves()
			url := m.url
			m.signal(syscall.SIGTERM)
			m.exit()
			m.configure(t, backend, "state: off\n"+yaml)
			m.begin()
			if status := m.exit(); status != 1 {
				t.Errorf("exit status %d:\n%s", status, m.stderr)
			}
			if got := m.names(); got != "" {
				t.Errorf("it keeps %q", got)
			}
			testkit.Eventually(t, "who connects is refused, and does not wait for nobody", func() bool {
				c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
				if err == nil {
					_ = c.Close()
				}
				return err != nil
			})
		})
	}
}

// TestKeptBesideASocketUnit: with a socket unit its sockets are served, and nothing else is
// kept.
func TestKeptBesideASocketUnit(t *testing.T) {
	t.Parallel()
	backend, _, _ := pageBackend(t)
	m := newManaged(t, backend, "state: off\n")
	m.begin()
	m.serves()
	m.signal(syscall.SIGTERM)
	m.exit()
	l, socket := supervised(t)
	files, names := m.kept()
	env := []string{"NOTIFY_SOCKET=" + m.manager.Path, "LISTEN_FDS=2", "LISTEN_FDNAMES=tempomat-proxy.socket:" + names[0]}
	m.process = startProcessWith(t, append([]*os.File{socket}, files...), env, "/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, program(t, "tempomat-proxy"), "-config", m.file)
	closeFiles(files)
	m.serves()
	if want := "http://" + l.Addr().String(); m.url != want || m.names() != "" {
		t.Errorf("it serves %s, want %s; kept are %q", m.url, want, m.names())
	}
}

// TestInterruptFreesPorts: while requests finish after SIGINT, another program can have the
// port; after SIGTERM the manager keeps it.
func TestInterruptFreesPorts(t *testing.T) {
	t.Parallel()
	for signal, kept := range map[syscall.Signal]bool{syscall.SIGTERM: true, syscall.SIGINT: false} {
		t.Run(signal.String(), func(t *testing.T) {
			backend, _, _ := pageBackend(t)
			m := newManaged(t, backend, "state: off\n")
			m.begin()
			m.serves()
			m.signal(signal)
			m.stderr.await(t, 0, `"msg":"draining"`)
			if is := m.names() != ""; is != kept {
				t.Errorf("the manager keeps sockets: %v, want %v", is, kept)
			}
		})
	}
}
