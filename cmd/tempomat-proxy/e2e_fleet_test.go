package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter/smockron"
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
	m.stderr.await(m.t, 0, `"msg":"serving"`)
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
