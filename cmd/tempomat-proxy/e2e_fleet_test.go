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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter/smockron"
	"tempomat/proxy/admin/api"
)

// masterProcess is a running tempomat-master, and how to start it again.
type masterProcess struct {
	*process
	t       *testing.T
	file    string
	address string // for accounting
}

// startMaster starts tempomat-master on sockets of its own, with further lines of
// configuration.
func startMaster(t *testing.T, yaml string) *masterProcess {
	t.Helper()
	dir := tempDir(t)
	m := &masterProcess{t: t, file: filepath.Join(dir, "master.yaml"), address: "ipc://" + filepath.Join(dir, "m")}
	writeFile(t, m.file, fmt.Sprintf("listen: %q\nadmin: {listen: \"unix:%s\"}\n", m.address, filepath.Join(dir, "admin"))+yaml)
	m.start()
	return m
}

func (m *masterProcess) start() {
	m.t.Helper()
	m.process = startProcess(m.t, nil, program(m.t, "tempomat-master"), "-config", m.file)
	m.stderr.Await(m.t, 0, `"msg":"serving"`)
}

// crash ends it with no time for anything.
func (m *masterProcess) crash() {
	m.t.Helper()
	m.signal(syscall.SIGKILL)
	m.exit()
}

// coordination has a sidecar share through it.
func (m *masterProcess) coordination() string {
	return fmt.Sprintf("coordination: {kind: smockron, smockron: {master: %q, site: shop}}\n", m.address)
}

// startFleet starts sidecars that share their accounts through a master.
func startFleet(t *testing.T, n int, m *masterProcess, backend, yaml string) (cars []*sidecarProcess) {
	t.Helper()
	for range n {
		cars = append(cars, startProxy(t, backend, yaml+m.coordination()))
	}
	for _, s := range cars {
		s.linked(true)
	}
	return cars
}

// links are how a sidecar stands with its masters.
func (s *sidecarProcess) links() []smockron.LinkState {
	s.t.Helper()
	var reply struct {
		State []smockron.LinkState `json:"state"`
	}
	s.ask("/v1/share", &reply)
	return reply.State
}

// linked waits until its master is there and has told what it knows, or is gone.
func (s *sidecarProcess) linked(want bool) {
	s.t.Helper()
	testkit.Eventually(s.t, fmt.Sprint("there is a master: ", want), func() bool {
		l := s.links()
		return len(l) == 1 && l[0].Present == want && (l[0].Synced || !want)
	})
}

// debt is what a client's address owes, in CPU-seconds.
func (s *sidecarProcess) debt(client string) float64 {
	s.t.Helper()
	row, _ := s.account("slash32", client)
	return max(0, -row.Level)
}

// served asks as a client, who is served.
func (s *sidecarProcess) served(client string) {
	s.t.Helper()
	if a := s.get(client, "/"); a.StatusCode != http.StatusOK {
		s.t.Errorf("%s at %s: %s", client, s.url, a.Status)
	}
}

// refused waits until a client's debt is known, and asks as that client.
func (s *sidecarProcess) refused(client string) {
	s.t.Helper()
	testkit.Eventually(s.t, "the debt of "+client+" is known", func() bool { return s.debt(client) > 0.02 })
	if a := s.get(client, "/"); a.StatusCode != http.StatusTooManyRequests {
		s.t.Errorf("%s at %s: %s", client, s.url, a.Status)
	}
}

// TestFleet has a client spend at one of three sidecars, which all know. The master
// crashes, is gone for a while, and comes back to what is in Redis.
func TestFleet(t *testing.T) {
	t.Parallel()
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(50 * time.Millisecond) }))
	t.Cleanup(backend.Close)
	r := testkit.StartRedis(t)
	m := startMaster(t, "store: redis://"+r.Address+`
domains:
  shop.slash32: {rule: credit, cpus: 0.0001, burst: 0s, memory: 1h}
`)
	const yaml = `cpuCount: 1
cost: {source: wall}
classes: {slash32: {share: 0.0001, burst: 0s}, slash24: off, slash16: off, userAgent: off}
throttle: {mode: cap, maxHold: 1s, memory: 1h}
`
	cars := startFleet(t, 3, m, backend.URL, yaml)
	const debtor, newcomer, late = "198.51.100.1", "198.51.100.2", "198.51.100.3"
	cars[0].served(debtor)
	for _, s := range cars {
		s.refused(debtor)
	}
	testkit.Eventually(t, "the debt is in the store", func() bool { return r.Ask("EXISTS throttle;shop.slash32;"+debtor) == ":1" })

	m.crash()
	for _, s := range cars {
		s.linked(false)
		s.refused(debtor) // what was known stays known
	}
	cars[0].served(newcomer) // nobody waits for a master
	cars[0].refused(newcomer)
	for _, s := range cars[1:] {
		s.served(newcomer) // they cannot know
	}
	forgetful := startProxy(t, backend.URL, yaml+m.coordination())
	forgetful.served(late)

	m.start()
	for _, s := range append(cars, forgetful) {
		s.linked(true)
		s.refused(debtor) // the master has told all of it that was there before
	}
	if d := cars[1].debt(late); d > 0 {
		t.Errorf("what was spent while there was no master is owed elsewhere: %.3f CPU-s", d)
	}
	forgetful.served("203.0.113.1")
	cars[2].refused("203.0.113.1")
}

// newSecret makes a file of a fleet's secret.
func newSecret(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(tempDir(t), "secret")
	if status, out, errors := execute(t, nil, program(t, "tempomat-proxy"), "secret", "new", file); status != 0 || !strings.Contains(out, "fingerprint") {
		t.Fatal(out, errors)
	}
	return file
}

// knows tells whether a client is known there.
func (s *sidecarProcess) knows(client string) bool {
	s.t.Helper()
	_, out, _ := s.doctor("explain", client)
	return strings.Contains(out, "a known client")
}

// fleetWay is a way to share, and how to break it.
type fleetWay struct {
	of         func(n int) string // what the n-th of at most five instances has in coordination
	fail, mend func()
}

// fleetWays are all ways to share. Redis hangs for a while; gossip is split, each instance from all others; of two
// masters both are killed, and one comes back.
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

// cables carry what is sent to some addresses to others, by UDP and TCP, unless they are cut.
type cables struct {
	from, to []string
	cut      atomic.Bool
}

func newCables(t *testing.T, n int) *cables {
	t.Helper()
	c := &cables{}
	for range n {
		from, to := testkit.FreeAddress(t), testkit.FreeAddress(t)
		c.from, c.to = append(c.from, from), append(c.to, to)
		packets, err := net.ListenPacket("udp", from)
		if err != nil {
			t.Fatal(err)
		}
		streams, err := net.Listen("tcp", from)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = packets.Close()
			_ = streams.Close()
		})
		address, err := net.ResolveUDPAddr("udp", to)
		if err != nil {
			t.Fatal(err)
		}
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

// TestAFleetKnowsPeople has a person visit one of three sidecars until it is known there: the others know it
// within a moment, and so does one that begins later. One with another secret is told, and learns nothing.
func TestAFleetKnowsPeople(t *testing.T) {
	t.Parallel()
	for kind, open := range fleetWays() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/html") }))
			t.Cleanup(backend.Close)
			secret, other, way := newSecret(t), newSecret(t), open(t)
			start := func(n int, secret string) *sidecarProcess {
				return startProxy(t, backend.URL, fmt.Sprintf("coordination: {secret: %q, %s}\n", secret, way.of(n)))
			}
			cars := []*sidecarProcess{start(0, secret), start(1, secret), start(2, secret)}
			const person = "198.51.100.1"
			testkit.Eventually(t, "it is known where it is", func() bool {
				cars[0].get(person, "/")
				time.Sleep(time.Second)
				return cars[0].knows(person)
			})
			for _, s := range cars[1:] {
				t.Logf("known elsewhere after %v", testkit.Eventually(t, "it is known elsewhere", func() bool { return s.knows(person) }))
			}
			late, stranger := start(3, secret), start(4, other)
			testkit.Eventually(t, "who begins later knows it", func() bool { return late.knows(person) })
			testkit.Eventually(t, "it has met the others", func() bool {
				var share api.ShareReply
				late.ask("/v1/share", &share)
				return len(share.Instances) == len(cars) && share.Instances[0].Mode == "fair"
			})
			began := time.Now()
			stranger.stderr.Await(t, 0, "another coordination.secret")
			cars[1].stderr.Await(t, 0, "another coordination.secret")
			t.Logf("another secret is told after %v", time.Since(began))
			if stranger.knows(person) || !cars[1].knows(person) {
				t.Error("without the secret it is known, or it is forgotten")
			}
			if _, out, _ := cars[1].doctor("status"); !strings.Contains(out, "another coordination.secret") {
				t.Errorf("status shows %s", out)
			}
		})
	}
}

// replaceSecret replaces a fleet's secret by one that signs at once, as those reload it that have it, which must be some.
func replaceSecret(t *testing.T, file string, cars ...*sidecarProcess) {
	t.Helper()
	setTime := func(from, to time.Time, form string) { // in the file
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, file, strings.Replace(string(text), from.UTC().Format(form), to.UTC().Format(form), 1))
	}
	reload := func() {
		for _, s := range cars {
			read := s.stderr.Len()
			s.signal(syscall.SIGHUP)
			s.stderr.Await(t, read, reloaded)
		}
	}
	now := time.Now()
	setTime(now, now.Add(-time.Hour), "2006-01-02T15") // or it cannot be rotated yet
	if status, out, errors := execute(t, nil, program(t, "tempomat-proxy"), "secret", "rotate", file); status != 0 {
		t.Fatal(out, errors)
	}
	reload()
	setTime(time.Now().Add(10*time.Minute), time.Now().Add(-time.Minute), "2006-01-02T15:04")
	reload()
	for _, s := range cars {
		if strings.Contains(s.stderr.String(), "stays as it was") {
			t.Error("the secret was not replaced")
		}
	}
}

// TestAPassOfAFleet: a newcomer that one sidecar redirected is redirected by no other, also while the secret is
// replaced.
func TestAPassOfAFleet(t *testing.T) {
	t.Parallel()
	secret := newSecret(t)
	yaml := fmt.Sprintf("coordination: {secret: %q}\n", secret)
	first, second, alone := startFullSite(t, yaml), startFullSite(t, yaml), startFullSite(t, "")
	for _, f := range []*fullSite{first, second, alone} {
		defer f.fill(t)()
	}
	ask := func(f *fullSite, client string, pass *http.Cookie) (status string, given *http.Cookie) {
		h := clicked(client)
		if pass != nil {
			h.Set("Cookie", pass.Name+"="+pass.Value)
		}
		res := open(t, newClient(t), http.MethodGet, f.url+"/page", h, nil)
		for _, c := range res.Cookies() {
			given = c
		}
		return got(res), given
	}
	waits := func(f *fullSite, client string, pass *http.Cookie) {
		t.Helper()
		h, held := clicked(client), f.stats().Held
		h.Set("Cookie", pass.Name+"="+pass.Value)
		f.later(h, "/page")
		testkit.Eventually(t, client+" waits, and is not redirected", func() bool { return f.stats().Held == held+1 })
	}
	status, pass := ask(first, "203.0.113.1", nil)
	if status != "302 ./page" || pass == nil {
		t.Fatal(status)
	}
	if status, _ := ask(alone, "203.0.113.1", pass); status != "302 ./page" {
		t.Errorf("without the secret it is %s", status)
	}
	waits(second, "203.0.113.1", pass)
	replaceSecret(t, secret, second.sidecarProcess)
	waits(second, "203.0.113.2", pass)
}
