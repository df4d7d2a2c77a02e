package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"tempomat/limiter/smockron/master"
)

// masterDocument is the document of /v1/master with the master's own types. If the name of a field changes there,
// tests in this package fail.
type masterDocument struct {
	Version         int     `json:"version"`
	Release         string  `json:"release"`
	Uptime          float64 `json:"uptime"`
	Reloads         uint64  `json:"reloads"`
	ReloadsRejected uint64  `json:"reloadsRejected"`
	master.State
}

const terminalCommand = "\x1b]0;owned\a\x1b[2J\u009b31m\u202egpj.\r\n|api  0"

// masterStatus returns the state of a master.
func masterStatus() masterDocument {
	counts := master.DomainCounts{
		Accepted: 125, Delayed: 8, Rejected: 3, Throttled: 12, Skewed: 5, NoCost: 2, Evicted: 9,
	}
	return masterDocument{
		Version: 1, Release: "1.2.3", Uptime: 3602, Reloads: 4, ReloadsRejected: 1,
		State: master.State{
			Counts: master.Counts{
				Malformed: map[string]uint64{"time": 3, "short": 1, "status": 0}, UnknownDomain: 8, Resyncs: 6, Overload: 4321, Late: 1,
			},
			Unsaved: 17, Lost: 2,
			Domains: []master.DomainState{
				{Name: "api", Rules: []string{"history one per 200ms, burst 20", "credit 0.5 CPU-s/s, burst 30s"}, Identifiers: 1_234_567, Gatekeepers: 3, Counts: counts},
				{Name: terminalCommand, Rules: []string{"bucket one per 1s, burst 10"}},
				{Name: "quiet", Rules: []string{}},
			},
		},
	}
}

// waiting returns the document with the identifiers that wait in a domain.
func waiting(domain string) any {
	rows := []master.IdentifierState{
		{Identifier: "203.0.113.9", Wait: 71.25, Until: 1_000_071_250},
		{Identifier: terminalCommand, Wait: 1.5, Until: 1_000_001_500},
		{Identifier: "patient", Until: 999_000_000},
		{Identifier: ""},
	}
	if domain == "quiet" {
		rows = rows[:0]
	}
	return struct {
		Version int                      `json:"version"`
		Domain  string                   `json:"domain"`
		Rows    []master.IdentifierState `json:"rows"`
	}{1, domain, rows}
}

// serveMaster answers like a master's admin API, and stores the last request.
func serveMaster(t *testing.T) (path string, asked *atomic.Value) {
	t.Helper()
	path = socketPath(t)
	asked = new(atomic.Value)
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, r *http.Request, v any) {
		asked.Store(r.URL.RequestURI())
		_ = json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("GET /v1/master", func(w http.ResponseWriter, r *http.Request) {
		reply(w, r, masterStatus())
	})
	mux.HandleFunc("GET /v1/identifiers", func(w http.ResponseWriter, r *http.Request) {
		domain := r.FormValue("domain")
		if domain == "nowhere" {
			w.WriteHeader(http.StatusNotFound)
			reply(w, r, map[string]any{"version": 1, "error": `there is no domain "nowhere"`})
			return
		}
		reply(w, r, waiting(domain))
	})
	serveSocket(t, path, mux)
	return path, asked
}

func TestMasterGoldens(t *testing.T) {
	for _, c := range []struct {
		golden string
		env    []string
		args   []string
	}{
		{"master.golden", nil, nil},
		{"master-json.golden", nil, []string{"--json"}},
		{"master-domain.golden", nil, []string{"api"}},
		{"master-domain-empty.golden", nil, []string{"quiet"}},
		{"master-domain-hostile.golden", nil, []string{terminalCommand}},
		{"master-domain-json.golden", nil, []string{"api", "--json"}},
	} {
		path, _ := serveMaster(t)
		code, stdout, stderr := call(t, c.env, append([]string{"master", "--socket", path}, c.args...)...)
		if code != 0 || stderr != "" {
			t.Errorf("%s: status %d, stderr %q", c.golden, code, stderr)
		}
		if strings.ContainsAny(stdout, "\x1b\a\u009b\u202e\r") {
			t.Errorf("%s: not plain: %q", c.golden, stdout)
		}
		golden(t, c.golden, stdout)
	}
}

// TestMasterIsAsked: the domain's name may contain any characters, and the request contains the limit.
func TestMasterIsAsked(t *testing.T) {
	path, asked := serveMaster(t)
	if code, _, _ := call(t, nil, "master", "--socket", path, "--limit=7", "a&b=c"); code != 0 || asked.Load() != "/v1/identifiers?domain=a%26b%3Dc&limit=7" {
		t.Errorf("status %d, asked for %v", code, asked.Load())
	}
}

func TestMasterFailures(t *testing.T) {
	path, _ := serveMaster(t)
	for _, c := range []struct {
		env  []string
		args []string
		text string
	}{
		{nil, []string{"--socket", "/nowhere/m.sock"}, "can't connect to /nowhere/m.sock: there is no such socket. Is tempomat-master running? If its admin.listen names another socket, give that socket with --socket\n"},
		// The variable names the proxy's socket, not the master's.
		{[]string{listenVariable + "=unix:" + path}, nil, "/run/tempomat-master/admin.sock"},
		{nil, []string{"--socket", path, "nowhere"}, `there is no domain "nowhere"`},
		{nil, []string{"--socket", serveOther(t, 200, "<html>")}, "isn't the admin API of tempomat-master (200 OK)"},
	} {
		fails(t, c.env, 1, c.text, append([]string{"master"}, c.args...)...)
	}
}
