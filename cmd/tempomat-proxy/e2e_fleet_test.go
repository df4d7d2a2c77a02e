package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter/smockron"
	"tempomat/proxy/admin/api"
)

// masterProcess is a running tempomat-master that can be restarted.
type masterProcess struct {
	*process
	t       *testing.T
	file    string
	address string // for accounting
}

// startMaster starts a tempomat-master with sockets of its own and further lines of configuration.
func startMaster(t *testing.T, yaml string) *masterProcess {
	t.Helper()
	dir := tempDir(t)
	m := &masterProcess{t: t, file: filepath.Join(dir, "master.yaml"), address: "ipc://" + filepath.Join(dir, "m")}
	testkit.ReplaceFile(t, m.file, fmt.Sprintf("listen: %q\nadmin: {listen: \"unix:%s\"}\n", m.address, filepath.Join(dir, "admin"))+yaml)
	m.start()
	return m
}

func (m *masterProcess) start() {
	m.t.Helper()
	m.process = testkit.Start(m.t, nil, program(m.t, "tempomat-master"), "-config", m.file)
	m.Stderr.Await(m.t, 0, `"msg":"serving"`)
}

// crash kills the master without warning.
func (m *masterProcess) crash() {
	m.t.Helper()
	m.Signal(syscall.SIGKILL)
	m.Exit()
}

// coordination returns the configuration of a sidecar that shares through this master.
func (m *masterProcess) coordination() string {
	return fmt.Sprintf("coordination: {kind: smockron, smockron: {master: %q, site: shop}}\n", m.address)
}

// links returns the state of a sidecar's connections to its masters.
func (s *sidecarProcess) links() []smockron.LinkState {
	s.t.Helper()
	var reply struct {
		State []smockron.LinkState `json:"state"`
	}
	s.ask("/v1/share", &reply)
	return reply.State
}

// linked waits until the sidecar's master is connected and has sent its state, or until it is disconnected.
func (s *sidecarProcess) linked(want bool) {
	s.t.Helper()
	testkit.Eventually(s.t, fmt.Sprint("there is a master: ", want), func() bool {
		l := s.links()
		return len(l) == 1 && l[0].Present == want && (l[0].Synced || !want)
	})
}

// debt returns the debt of a client's address, in CPU-seconds.
func (s *sidecarProcess) debt(client string) float64 {
	s.t.Helper()
	row, _ := s.account("slash32", client)
	return max(0, -row.Level)
}

// served sends a request as a client, which must be served.
func (s *sidecarProcess) served(client string) {
	s.t.Helper()
	if a := s.get(client, "/"); a.StatusCode != http.StatusOK {
		s.t.Errorf("%s at %s: %s", client, s.url, a.Status)
	}
}

// refused waits until a client's debt is known, and sends a request as that client, which must be rejected.
func (s *sidecarProcess) refused(client string) {
	s.t.Helper()
	testkit.Eventually(s.t, "the debt of "+client+" is known", func() bool { return s.debt(client) > 0.02 })
	if a := s.get(client, "/"); a.StatusCode != http.StatusTooManyRequests {
		s.t.Errorf("%s at %s: %s", client, s.url, a.Status)
	}
}

// doctor runs tempomat-doctor for the master, and reduces runs of spaces to one.
func (m *masterProcess) doctor(args ...string) string {
	m.t.Helper()
	socket := filepath.Join(filepath.Dir(m.file), "admin")
	status, out, errs := testkit.Execute(m.t, nil, program(m.t, "tempomat-doctor"), append(args, "--socket", socket)...)
	if status != 0 || errs != "" {
		m.t.Fatalf("%q: status %d: %s", args, status, errs)
	}
	return regexp.MustCompile(" +").ReplaceAllString(out, " ")
}

// TestFleet: a client spends its credit at one of three sidecars. The debt then counts at all of them, and the doctor
// shows it at the master. The master crashes, stays down for a while, and resumes with the state in Redis. Redis then
// also fails for a while.
func TestFleet(t *testing.T) {
	t.Parallel()
	backend := startBackend(t, func(http.ResponseWriter, *http.Request) { time.Sleep(50 * time.Millisecond) })
	r := testkit.StartRedis(t)
	m := startMaster(t, "store: redis://"+r.Address+`
domains:
  shop.slash32: {rule: credit, cpus: 0.0001, burst: 0s, memory: 1h}
  counted:
`)
	const yaml = `cpuCount: 1
cost: {source: wall}
classes: {slash32: {share: 0.0001, burst: 0s}, slash24: off, slash16: off, userAgent: off}
throttle: {mode: cap, maxHold: 1s, memory: 1h}
`
	var cars []*sidecarProcess
	for range 3 {
		cars = append(cars, startProxy(t, backend, yaml+m.coordination()))
	}
	for _, s := range cars {
		s.linked(true)
	}
	const debtor, newcomer, late = "198.51.100.1", "198.51.100.2", "198.51.100.3"
	cars[0].served(debtor)
	for _, s := range cars {
		s.refused(debtor)
	}
	testkit.Eventually(t, "the debt is in the store", func() bool { return r.Ask("EXISTS throttle;shop.slash32;"+debtor) == ":1" })

	if out := m.doctor("master", "shop.slash32"); !regexp.MustCompile(`(?m)^ ?[1-9][0-9.]* 20[0-9-]+ [0-9:.]+ 198\.51\.100\.1$`).MatchString(out) {
		t.Errorf("the doctor does not show when the debtor may ask again:\n%s", out)
	}
	testkit.Same(t, "reloaded\n", m.doctor("reload"), "reload prints")
	out := m.doctor("master")
	for _, want := range []string{"release " + builtVersion + "\n", "|domains 2\n", "reloads 1\n", " counted no rules: only counted\n", " shop.slash32 credit 0.0001 CPU-s/s, burst 0s"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}

	m.crash()
	for _, s := range cars {
		s.linked(false)
		s.Stderr.Await(t, 0, "can't share accounts; this instance")
		s.refused(debtor) // known debts stay known
	}
	cars[0].served(newcomer) // requests never wait for a master
	cars[0].refused(newcomer)
	for _, s := range cars[1:] {
		s.served(newcomer) // this sidecar can't know the debt
	}
	forgetful := startProxy(t, backend, yaml+m.coordination())
	forgetful.served(late)

	m.start()
	for _, s := range append(cars, forgetful) {
		s.linked(true)
		s.Stderr.Await(t, 0, "sharing accounts")
		s.refused(debtor) // the master has sent its whole earlier state
	}
	if d := cars[1].debt(late); d > 0 {
		t.Errorf("what was spent while there was no master is owed elsewhere: %.3f CPU-s", d)
	}
	forgetful.served("203.0.113.1")
	cars[2].refused("203.0.113.1")

	r.Kill()
	cars[0].served("203.0.113.2")
	m.Stderr.Await(t, 0, `"msg":"can't reach the store; the state stays in memory until the store is back"`)
	r.Start()
	m.Stderr.Await(t, 0, `"msg":"the store is back"`)
}

// newSecret creates a file with a fleet's secret.
func newSecret(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(tempDir(t), "secret")
	if status, out, errors := testkit.Execute(t, nil, program(t, "tempomat-proxy"), "secret", "new", file); status != 0 || !strings.Contains(out, "fingerprint") {
		t.Fatal(out, errors)
	}
	return file
}

// knows reports whether the sidecar knows a client.
func (s *sidecarProcess) knows(client string) bool {
	s.t.Helper()
	_, out, _ := s.doctor("explain", client)
	return strings.Contains(out, "a known client")
}

// fleetWay is a way to share, with functions that break and repair it.
type fleetWay struct {
	of         func(n int) string // coordination settings of the n-th of at most five instances
	fail, mend func()
}

// fleetWays returns all ways to share. When they fail, Redis hangs, gossip is split (each instance from all others), or
// both of two masters are killed, of which one returns.
func fleetWays() map[string]func(*testing.T) fleetWay {
	return map[string]func(*testing.T) fleetWay{
		"redis": func(t *testing.T) fleetWay {
			r := testkit.StartRedis(t)
			way := fmt.Sprintf("kind: redis, redis: {addresses: [%q]}", r.Address)
			return fleetWay{func(int) string { return way }, r.Pause, r.Resume}
		},
		"smockron": func(t *testing.T) fleetWay {
			const domains = "domains: {shop.slash32: {rule: credit, cpus: 1}, shop.slash24: {rule: credit, cpus: 1}}\n"
			first, second := startMaster(t, domains), startMaster(t, domains)
			way := fmt.Sprintf("kind: smockron, smockron: {master: [%q, %q], site: shop}", first.address, second.address)
			return fleetWay{func(int) string { return way }, func() { first.crash(); second.crash() }, second.start}
		},
		"gossip": func(t *testing.T) fleetWay {
			c := newCables(t, 5)
			return fleetWay{func(n int) string {
				return fmt.Sprintf("kind: gossip, gossip: {listen: %q, advertise: %q, join: [%s]}", c.to[n], c.from[n], strings.Join(c.from, ", "))
			}, func() { c.cut.Store(true) }, func() { c.cut.Store(false) }}
		},
	}
}

// cables forward UDP and TCP from some addresses to others, unless they are cut.
type cables struct {
	from, to []string
	cut      atomic.Bool
}

func newCables(t *testing.T, n int) *cables {
	t.Helper()
	c := &cables{}
	for len(c.from) < n {
		streams, err := net.Listen("tcp", "127.0.0.1:0")
		testkit.Must(t, err)
		packets, err := net.ListenPacket("udp", streams.Addr().String())
		if err != nil { // another program uses this port
			_ = streams.Close()
			continue
		}
		from, to := streams.Addr().String(), testkit.FreeAddress(t)
		c.from, c.to = append(c.from, from), append(c.to, to)
		t.Cleanup(func() {
			_ = packets.Close()
			_ = streams.Close()
		})
		address, err := net.ResolveUDPAddr("udp", to)
		testkit.Must(t, err)
		go c.carryPackets(packets, address)
		go c.carryStreams(streams, to)
	}
	return c
}

func (c *cables) carryPackets(from net.PacketConn, to net.Addr) {
	buffer := make([]byte, 1<<16)
	for {
		size, _, err := from.ReadFrom(buffer)
		if err != nil {
			return
		}
		if !c.cut.Load() {
			_, _ = from.WriteTo(buffer[:size], to)
		}
	}
}

func (c *cables) carryStreams(from net.Listener, to string) {
	for {
		in, err := from.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil || c.cut.Load() {
			_ = in.Close()
			if err == nil {
				_ = out.Close()
			}
			continue
		}
		for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
			go func() {
				_, _ = io.Copy(way[0], way[1])
				_ = way[0].Close()
			}()
		}
	}
}

// TestAFleetKnowsPeople: a person logs in at one of three sidecars, and the others know this client within a moment.
// A sidecar that starts after a rotation of the secret also knows the client, and the others know its clients. Gossip
// also shares a robot's charges. An instance with a different secret is reported, and learns nothing.
func TestAFleetKnowsPeople(t *testing.T) {
	t.Parallel()
	backend := pageBackend(t)
	for kind, open := range fleetWays() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			secret, other, way := newSecret(t), newSecret(t), open(t)
			start := func(n int, secret string) *sidecarProcess {
				return startProxy(t, backend, slowly+fmt.Sprintf("coordination: {secret: %q, %s}\n", secret, way.of(n)))
			}
			cars := []*sidecarProcess{start(0, secret), start(1, secret), start(2, secret)}
			isKnown := func(person, robot string, by *sidecarProcess, to ...*sidecarProcess) {
				t.Helper()
				for range 2 {
					fetch(t, newClient(t), http.MethodGet, by.url+"/login", clicked(person), nil)
				}
				for _, s := range to {
					testkit.Eventually(t, person+" is known elsewhere", func() bool { return s.knows(person) })
				}
				by.get(robot, "/")
				for _, s := range to {
					testkit.Eventually(t, "by gossip, a robot's charge is known elsewhere", func() bool {
						_, charged := s.account("slash32", robot)
						return charged || kind != "gossip"
					})
				}
			}
			const person = "198.51.100.1"
			isKnown(person, "203.0.113.1", cars[0], cars...)
			replaceSecret(t, secret, cars...)
			late, stranger := start(3, secret), start(4, other)
			testkit.Eventually(t, "who begins later knows it", func() bool { return late.knows(person) })
			isKnown("198.51.100.2", "203.0.113.2", late, cars...)
			testkit.Eventually(t, "it has met the others", func() bool {
				var share api.ShareReply
				late.ask("/v1/share", &share)
				return len(share.Instances) == len(cars) && share.Instances[0].Mode == "fair"
			})
			stranger.Stderr.Await(t, 0, "a different coordination.secret")
			cars[1].Stderr.Await(t, 0, "a different coordination.secret")
			if stranger.knows(person) || !cars[1].knows(person) {
				t.Error("without the secret it is known, or it is forgotten")
			}
			if _, out, _ := cars[1].doctor("status"); !strings.Contains(out, "a different coordination.secret") {
				t.Errorf("status shows %s", out)
			}
		})
	}
}

// replaceSecret replaces a fleet's secret with one that signs at once, and reloads all cars. There must be at least
// one.
func replaceSecret(t *testing.T, file string, cars ...*sidecarProcess) {
	t.Helper()
	setTime := func(from, to time.Time, form string) { // in the file
		text := testkit.ReadFile(t, file)
		testkit.ReplaceFile(t, file, strings.Replace(text, from.UTC().Format(form), to.UTC().Format(form), 1))
	}
	reload := func() {
		for _, s := range cars {
			s.reload(reloaded)
		}
	}
	now := time.Now()
	setTime(now, now.Add(-time.Hour), "2006-01-02T15") // otherwise it can't be rotated yet
	if status, out, errors := testkit.Execute(t, nil, program(t, "tempomat-proxy"), "secret", "rotate", file); status != 0 {
		t.Fatal(out, errors)
	}
	reload()
	setTime(time.Now().Add(10*time.Minute), time.Now().Add(-time.Minute), "2006-01-02T15:04")
	reload()
	for _, s := range cars {
		if strings.Contains(s.Stderr.String(), "previous one stays in use") {
			t.Error("the secret was not replaced")
		}
	}
}

// TestStrictLimits sends requests to two sidecars that count together in Redis, and then kills Redis.
func TestStrictLimits(t *testing.T) {
	t.Parallel()
	r := testkit.StartRedis(t)
	yaml := `headers: draft
limits: [{name: login, path: /login, rate: 1/hour, burst: 2, strict: true}]
coordination: {redis: {addresses: ["redis://` + r.Address + `?timeout=5s"]}}
`
	backend := pageBackend(t)
	cars := [2]*sidecarProcess{startProxy(t, backend, yaml), startProxy(t, backend, yaml)}
	for i, want := range []string{`"login";r=1;t=3600`, `"login";r=0;t=7200`, `"login";r=0;t=7200`} {
		a := cars[i%2].get("198.51.100.1", "/login")
		if got := a.Header.Get("RateLimit"); got != want || (a.StatusCode == 429) != (i == 2) || a.Header.Get("RateLimit-Policy") != `"login";q=2;qu="requests";w=7200` {
			t.Errorf("request %d: %s, %v; want %s", i, a.Status, a.Header, want)
		}
	}
	r.Kill()
	for range 3 {
		testkit.Same(t, 200, cars[0].get("198.51.100.1", "/login").StatusCode, "without Redis: status")
	}
	if got := cars[0].stats().Conditions; !slices.ContainsFunc(got, func(c api.Condition) bool { return c.Name == "strict-limits" }) {
		t.Errorf("nothing shows that the limit lets all pass: %v", got)
	}
	if got := cars[0].stats().Counters; got["strictChecks"] != 2 || got["strictFailures"] == 0 {
		t.Errorf("%v", got)
	}
}
