package main

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"tempomat/proxy/admin/api"
)

// onslaught is a recorded attack: 150 requests of 50 ms of CPU time within 3 s from a network
// that may use one CPU, and 36 of three people. Each is sent at its time, whatever becomes of the
// others. It returns how many of each were refused.
func (s *sidecarProcess) onslaught(t *testing.T) (robots, people int) {
	t.Helper()
	client := newClient(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	send := func(at time.Duration, from, agent string, refused *int) {
		all.Go(func() {
			time.Sleep(at)
			h := http.Header{"X-Forwarded-For": {from}, "User-Agent": {agent}}
			if a := fetch(t, client, http.MethodGet, s.url+"/page", h, nil); a.StatusCode == http.StatusTooManyRequests {
				mu.Lock()
				defer mu.Unlock()
				*refused++
			}
		})
	}
	for i := range 150 {
		send(time.Duration(i)*20*time.Millisecond, fmt.Sprintf("203.0.113.%d", i%20), "curl/8.0", &robots)
	}
	for i := range 36 {
		send(time.Duration(i)*83*time.Millisecond, fmt.Sprintf("198.51.%d.1", i%3), "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0", &people)
	}
	all.Wait()
	return robots, people
}

// shadowSums are the groups of the doctor's report of cap in shadow.
func (s *sidecarProcess) shadowSums(t *testing.T) map[string]api.ShadowGroup {
	t.Helper()
	status, text, stderr := s.doctor("shadow", "--json")
	var reply api.ShadowReply
	if err := json.Unmarshal([]byte(text), &reply); status != 0 || err != nil {
		t.Fatalf("status %d, %v: %s%s", status, err, text, stderr)
	}
	groups := make(map[string]api.ShadowGroup)
	for _, m := range reply.Modes {
		if m.Mode != "cap" || m.Lost > 0 {
			t.Errorf("%s, %d lost", m.Mode, m.Lost)
		}
		for _, g := range m.Groups {
			groups[g.Name] = g
		}
	}
	return groups
}

// TestShadowReport: an attack comes while the limits are in shadow, and delays nobody. What
// the doctor says of it is what becomes of the same attack when they act, within a tenth.
func TestShadowReport(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(40 * time.Millisecond)
		w.Header().Set("Tempomat-Cost", "0.05")
	}))
	defer backend.Close()
	limits := fmt.Sprintf("state: %q\n", filepath.Join(tempDir(t), "state")) + `
cpuCount: 4
cost: {source: header}
robots: {enabled: false}
classes:
  slash32: {share: 1, burst: 1m}
  slash24: {share: 0.25, burst: 1s}
  slash16: {share: 1, burst: 1m}
  userAgent: {share: 1, burst: 1m}
`
	run := func(shadow string) *sidecarProcess {
		return startProxy(t, backend.URL, limits+"throttle: {mode: cap, maxHold: 1s, shadow: "+shadow+"}\n")
	}
	end := func(s *sidecarProcess) {
		s.signal(syscall.SIGTERM)
		s.exit()
	}
	s := run("true")
	if robots, people := s.onslaught(t); robots+people > 0 || s.stats().Counters["delayed"] > 0 {
		t.Errorf("in shadow %d of the attack's and %d of people's requests are refused, %d delayed", robots, people, s.stats().Counters["delayed"])
	}
	end(s)
	s = run("cap") // it acts, and reckons beside that
	said := s.shadowSums(t)
	robots, people := s.onslaught(t)
	end(s)
	s = run("false")
	both := s.shadowSums(t)
	for name, refused := range map[string]int{"robots": robots, "strangers": people} {
		would, was := said[name].Would, both[name].Was
		was.CPU, was.Delayed = was.CPU-said[name].Was.CPU, was.Delayed-said[name].Was.Delayed
		n := float64(said[name].Requests)
		near := func(a, b float64) bool { return math.Abs(a-b) <= 0.1*n }
		if !near(float64(would.Refused), float64(refused)) || !near(float64(would.Delayed), float64(was.Delayed)) || !near(would.CPU/0.05, was.CPU/0.05) {
			t.Errorf("%s: it was said that %+v would have been, and there were %d refused, %+v", name, would, refused, was)
		}
		t.Logf("%s: of %v said %+v, enforced: refused %d, %+v", name, n, would, refused, was)
	}
	if robots < 20 || people > 0 || said["robots"].Requests != 150 || said["strangers"].Requests != 36 {
		t.Errorf("%d of the attack's and %d of people's requests were refused, of %+v", robots, people, said)
	}
}
