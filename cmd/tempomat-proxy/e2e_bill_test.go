package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/proxy/admin/api"
)

// costs is what the proxy knows the cost of requests from, in seconds.
func (s *sidecarProcess) costs(metrics string) (process, estimate float64) {
	return s.scrape(metrics, `tempomat_cost_seconds_total{source="process"}`), s.scrape(metrics, `tempomat_cost_seconds_total{source="estimate"}`)
}

// TestExactBill compares what was charged for pages of Apache's with what PHP says that it has
// used: as workers are found, as they tell, and as neither is to be had.
func TestExactBill(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(tempDir(t), "w.sock")
	if err := os.Chmod(filepath.Dir(socket), 0o755); err != nil {
		t.Fatal(err)
	}
	tells := startApache(t, "--prepend", telling(t, socket))
	for name, c := range map[string]struct {
		lines  string
		rights bool
		known  bool
		log    string // a line of it
	}{
		"found":                {"", true, true, "is measured at the backend's workers"},
		"told, without rights": {"socket: \"unix:" + socket + "\"", false, true, ""},
		"without rights":       {"", false, false, "CAP_SYS_PTRACE"},
	} {
		t.Run(name, func(t *testing.T) {
			var before []string
			if !c.rights {
				before = withoutRights(t)
			}
			metrics := "127.0.0.1:" + freePort(t)
			s := startProxyWith(t, nil, before, tells.url, fmt.Sprintf("metrics: %q\ntrustedProxies: [127.0.0.1]\ncost: {source: process, %s}\n", metrics, c.lines))
			client := "198.51.100." + fmt.Sprint(len(name)) // of php.log, which is of all
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					web := newClient(t)
					for range 3 {
						fetch(t, web, http.MethodGet, s.url+"/page.php?ms=60", http.Header{"X-Forwarded-For": {client}}, nil)
						fetch(t, web, http.MethodGet, s.url+"/sleep.php?ms=60", http.Header{"X-Forwarded-For": {client}}, nil)
					}
				})
			}
			all.Wait()
			_, cpu := tells.cpu(client, 0, 1e12)
			process, estimate := s.costs(metrics)
			t.Logf("PHP used %v; known %.3f s, estimated %.3f s", cpu, process, estimate)
			part := process / cpu.Seconds()
			if c.known && (part < 0.9 || part > 1.2) || !c.known && (process > 0 || estimate == 0) {
				t.Errorf("known is %.2f of what PHP used, and %.3f s are estimated", part, estimate)
			}
			var g api.GateReply
			s.ask("/v1/gate", &g)
			k := g.Kernel
			lacks := slices.ContainsFunc(k.Missing, func(m api.MissingRow) bool {
				return m.For == "costs" && strings.Contains(m.What, "CAP_SYS_PTRACE") && m.Remedy != ""
			})
			if lacks == c.known || (k.Costs[0].Requests > 0) != c.known {
				t.Errorf("the doctor is told %+v", k)
			}
			if c.log != "" {
				testkit.Eventually(t, "the log says "+c.log, func() bool { return strings.Count(s.stderr.String(), c.log) == 1 })
			}
		})
	}
}

// TestSocketThatNobodyTellsBy: who has set cost.socket is told what is wrong with it, and a reload
// opens it once its directory is there, though the configuration is the same.
func TestSocketThatNobodyTellsBy(t *testing.T) {
	t.Parallel()
	directory := filepath.Join(tempDir(t), "later")
	a := startApache(t)
	s := startProxyWith(t, nil, withoutRights(t), a.url, "cost: {socket: \"unix:"+filepath.Join(directory, "w.sock")+"\"}\n")
	web := newClient(t)
	gateSays := func(what string) {
		t.Helper()
		testkit.Eventually(t, "the doctor says "+what, func() bool {
			fetch(t, web, http.MethodGet, s.url+"/page.php?ms=30", nil, nil)
			_, out, _ := s.doctor("status")
			return strings.Contains(out, what)
		})
	}
	gateSays("workers cannot report by cost.socket")
	if err := os.Mkdir(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	if status, _, text := s.doctor("reload"); status != 0 {
		t.Fatal(text)
	}
	gateSays("no worker reports by cost.socket, and none is found")
}

// telling is PHP's prepend file that tells at the socket.
func telling(t *testing.T, socket string) string {
	t.Helper()
	text, err := os.ReadFile("../../deploy/php/tempomat-worker.php")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(tempDir(t), "prepend.php")
	writeFile(t, name, strings.Replace(string(text), "/run/tempomat/worker.sock", socket, 1))
	return forEverybody(t, name)
}

// withoutRights is the beginning of a command that has none beyond a user's. Where the tests
// run as an ordinary user, Apache's workers are that user's, too, and are found.
func withoutRights(t *testing.T) []string {
	t.Helper()
	testkit.Root(t, "Apache's workers are this user's")
	return []string{testkit.Program(t, "setpriv"), "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"}
}

// TestSilentWithoutAProxy has PHP tell where no program listens, and where the socket is full: the
// page comes, and at once.
func TestSilentWithoutAProxy(t *testing.T) {
	t.Parallel()
	full := filepath.Join(tempDir(t), "full.sock")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: full, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // nobody reads it
	if err := errors.Join(os.Chmod(full, 0o666), os.Chmod(filepath.Dir(full), 0o755)); err != nil {
		t.Fatal(err)
	}
	for name, socket := range map[string]string{"no program listens": "/nowhere/w.sock", "it is full": full} {
		a := startApache(t, "--workers", "2", "--prepend", telling(t, socket))
		web := newClient(t)
		for range 700 { // more than the kernel keeps
			h := http.Header{"Tempomat-Request": {strings.Repeat("0", 32)}}
			if r := fetch(t, web, http.MethodGet, a.url+"/page.php?ms=0", h, nil); r.StatusCode != http.StatusOK || strings.Contains(r.body, "arning") {
				t.Fatalf("%s: %s %s", name, r.Status, r.body)
			}
		}
		if log := a.log("error.log"); strings.Contains(log, "PHP") {
			t.Errorf("%s: %s", name, log)
		}
	}
}
