//go:build cgo

package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/limiter/smockron"
	"tempomat/proxy/admin/api"
)

const (
	greedy  = "greedy"
	hostile = "\x1b]0;owned\a\r\n"
	address = "198.51.100.7"
)

// TestMaster runs the program from start to end, with a gatekeeper and the gatekeeper's clients.
func TestMaster(t *testing.T) {
	host, port := "127.0.0.1", testkit.FreePorts(t, 2)
	metrics := testkit.FreeAddress(t)
	rules := fmt.Sprintf(`listen: tcp://%s:%d
domains:
  api: {rate: 1/min, burst: 2}
  www.slash32: {rule: credit, cpus: 0.01, burst: 1s}
metrics: %q
`, host, port, metrics)
	m := startMaster(t, rules)
	at := smockron.Addresses{Accounting: fmt.Sprintf("tcp://%s:%d", host, port), Control: fmt.Sprintf("tcp://%s:%d", host, port+1)}
	g := startGatekeeper(t, at)

	g.pass(greedy, 5)
	g.pass(hostile, 1)
	now := time.Now()
	g.Offer(limiter.Charge{
		Key: limiter.Key{Class: "api", ID: "late"}, Event: limiter.Delayed, At: now, Received: now, Until: now.Add(250 * time.Millisecond),
	})
	g.Offer(limiter.Charge{Key: limiter.Key{Class: "slash32", ID: address}, Cost: 2 * time.Second, At: now, Received: now, Until: now})
	testkit.Eventually(t, "both who took too much have to wait", func() bool {
		return g.waits("api", greedy) && g.waits("slash32", address)
	})
	testkit.Eventually(t, "the master has counted all that it was told", func() bool {
		s := m.status()
		return s.Domains[0].Counts.Accepted == 6 && s.Domains[0].Counts.Delayed == 1 && s.Domains[1].Counts.Accepted == 1
	})
	if g.waits("api", hostile) {
		t.Error("a client that asked once waits")
	}

	t.Run("status", func(t *testing.T) { tellsStatus(t, m) })
	t.Run("identifiers", func(t *testing.T) { tellsIdentifiers(t, m) })
	t.Run("metrics", func(t *testing.T) { tellsMetrics(t, m, "http://"+metrics+"/metrics") })
	t.Run("reload", func(t *testing.T) { reloads(t, m, rules) })
	if fresh := startGatekeeper(t, at); !fresh.waits("api", greedy) {
		t.Error("a gatekeeper that comes later is not told")
	}
	t.Run("end", func(t *testing.T) {
		m.Signal(syscall.SIGTERM)
		m.Exits(0)
		m.await(0, `"msg":"ended"`)
		if _, err := os.Stat(m.admin); !os.IsNotExist(err) {
			t.Errorf("the admin socket is still there: %v", err)
		}
	})
}

func (m *masterProcess) status() (s statusReply) {
	m.t.Helper()
	testkit.Same(m.t, http.StatusOK, m.ask(http.MethodGet, "/v1/master", &s), "the status of /v1/master")
	return s
}

func tellsStatus(t *testing.T, m *masterProcess) {
	s := m.status()
	if s.Version != api.Version || s.Release != version || s.Uptime <= 0 || s.Reloads != 0 || len(s.Domains) != 2 {
		t.Fatalf("status %+v", s)
	}
	api, www := s.Domains[0], s.Domains[1]
	if api.Name != "api" || api.Gatekeepers != 1 || api.Identifiers != 3 || len(api.Rules) != 1 || !strings.HasPrefix(api.Rules[0], "bucket") {
		t.Errorf("domain %+v", api)
	}
	if c := api.Counts; c.Accepted != 6 || c.Delayed != 1 || c.Throttled == 0 {
		t.Errorf("counts of %s: %+v", api.Name, c)
	}
	if c := www.Counts; www.Name != "www.slash32" || c.Accepted != 1 || c.Throttled != 1 || c.NoCost != 0 {
		t.Errorf("domain %+v", www)
	}
}

func tellsIdentifiers(t *testing.T, m *masterProcess) {
	var r identifiersReply
	testkit.Same(t, http.StatusOK, m.ask(http.MethodGet, "/v1/identifiers?domain=api", &r), "the status of /v1/identifiers")
	if r.Domain != "api" || len(r.Rows) != 3 || r.Rows[0].Identifier != greedy || r.Rows[0].Wait <= 0 || r.Rows[1].Wait != 0 {
		t.Errorf("identifiers %+v", r)
	}
	r = identifiersReply{}
	if m.ask(http.MethodGet, "/v1/identifiers?domain=api&limit=1", &r); len(r.Rows) != 1 {
		t.Errorf("identifiers %+v, want one", r)
	}
	for query, want := range map[string]int{
		"": 404, "?domain=other": 404, "?domain=api&limit=0": 400, "?domain=api&limit=10001": 400, "?domain=api&limit=all": 400,
	} {
		var e api.ErrorReply
		if status := m.ask(http.MethodGet, "/v1/identifiers"+query, &e); status != want || e.Error == "" || e.Version != api.Version {
			t.Errorf("%q: %d %+v, want %d", query, status, e, want)
		}
	}
}

func tellsMetrics(t *testing.T, m *masterProcess, url string) {
	status, body := m.fetch(http.MethodGet, url, nil)
	if status != http.StatusOK {
		t.Fatalf("answered %d", status)
	}
	text := string(body)
	for _, line := range []string{
		`tempomat_master_accounting_total{domain="api",status="accepted"} 6`,
		`tempomat_master_accounting_total{domain="api",status="delayed"} 1`,
		`tempomat_master_accounting_total{domain="www.slash32",status="accepted"} 1`,
		`tempomat_master_throttled_total{domain="www.slash32"} 1`,
		`tempomat_master_identifiers{domain="api"} 3`,
		`tempomat_master_gatekeepers{domain="www.slash32"} 1`,
		`tempomat_master_overload_dropped_total 0`,
		`tempomat_master_unsaved 0`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s in:\n%s", line, text)
		}
	}
	if strings.Contains(text, greedy) {
		t.Error("the metrics name an identifier")
	}
}

// reloads makes the master read a valid file and then invalid ones, in both ways. The state stays.
func reloads(t *testing.T, m *masterProcess, rules string) {
	m.configure(strings.Replace(rules, "domains:\n", "maxSkew: 5s\ndomains:\n  more: {rate: 5/sec, burst: 10}\n", 1))
	m.Signal(syscall.SIGHUP)
	from := m.await(0, `"msg":"reloaded"`)
	m.await(0, `"msg":"setting changed"`, `"key":"maxSkew"`, `"old":"10s"`, `"new":"5s"`)
	m.await(0, `"msg":"setting changed"`, `"key":"domains"`, "more bucket")
	stays := func(reloads, rejected uint64) {
		t.Helper()
		if s := m.status(); s.Reloads != reloads || s.ReloadsRejected != rejected || len(s.Domains) != 3 || s.Domains[0].Counts.Accepted != 6 {
			t.Errorf("status %+v", s)
		}
		var r identifiersReply
		if m.ask(http.MethodGet, "/v1/identifiers?domain=api&limit=1", &r); len(r.Rows) != 1 || r.Rows[0].Identifier != greedy || r.Rows[0].Wait <= 0 {
			t.Errorf("identifiers %+v", r)
		}
	}
	stays(1, 0)

	m.configure("domains:\n  api: {rate: 5/week, burst: 1}\nlogs: 1\n")
	m.Signal(syscall.SIGHUP)
	const rejected = `"msg":"configuration rejected; the current one stays in use"`
	m.await(from, rejected, `"line":3`, `"key":"domains.api.rate"`, "5/week")
	from = m.await(from, rejected, `"line":4`, `"key":"logs"`)
	var e api.ErrorReply
	if status := m.ask(http.MethodPost, "/v1/reload", &e); status != http.StatusUnprocessableEntity || !strings.Contains(e.Error, "master.yaml:3: domains.api.rate: 5/week") {
		t.Errorf("the admin API answers %d %+v", status, e)
	}
	stays(1, 2)

	m.configure(strings.Replace(rules, "domains:\n", "store: redis://127.0.0.1:1\ndomains:\n  more: {rate: 5/sec, burst: 10}\n", 1))
	var s statusReply
	if status := m.ask(http.MethodPost, "/v1/reload", &s); status != http.StatusOK || s.Reloads != 2 {
		t.Errorf("the admin API answers %d %+v", status, s)
	}
	m.await(from, `"msg":"a changed setting takes effect only after a restart"`, `"key":"store"`)
	stays(2, 2)
}

// TestASecondMasterTakesOver: each of two masters gets all reports. If one ends, the other continues with all debts,
// even for a gatekeeper that connects later. The first one has all debts again when it returns.
func TestASecondMasterTakesOver(t *testing.T) {
	start := func() (*masterProcess, smockron.Addresses) {
		port := testkit.FreePorts(t, 2)
		return startMaster(t, fmt.Sprintf("listen: tcp://127.0.0.1:%d\ndomains:\n  api: {rate: 1/min, burst: 2}\n  www.slash32: {rule: credit, cpus: 0.01, burst: 1s}\n", port)),
			smockron.Addresses{Accounting: fmt.Sprintf("tcp://127.0.0.1:%d", port), Control: fmt.Sprintf("tcp://127.0.0.1:%d", port+1)}
	}
	one, atOne := start()
	other, atOther := start()
	g := startGatekeeper(t, atOne, atOther)
	testkit.Eventually(t, "both are there", func() bool { return g.synced() == 2 })
	g.pass(greedy, 5)
	testkit.Eventually(t, "both know", func() bool {
		return one.status().Domains[0].Counts.Accepted == 5 && other.status().Domains[0].Counts.Accepted == 5 && g.waits("api", greedy)
	})
	one.Signal(syscall.SIGKILL)
	one.Exit()
	if fresh := startGatekeeper(t, atOne, atOther); !fresh.waits("api", greedy) {
		t.Error("the other master lets through who owes")
	}
	now := time.Now()
	if !g.Offer(limiter.Charge{Key: limiter.Key{Class: "slash32", ID: address}, Cost: 2 * time.Second, At: now, Received: now, Until: now}) {
		t.Error("the charge is dropped")
	}
	testkit.Eventually(t, "the other one orders", func() bool { return g.waits("slash32", address) })
	one.restart()
	testkit.Eventually(t, "the first is back", func() bool { return g.synced() == 2 })
	g.pass("late", 5)
	testkit.Eventually(t, "it is told", func() bool { return one.status().Domains[0].Counts.Accepted == 5 })
}
