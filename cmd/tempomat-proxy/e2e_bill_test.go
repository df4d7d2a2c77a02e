package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/proxy/admin/api"
)

// costs returns the cost of requests by its source, in seconds.
func (s *sidecarProcess) costs(metrics string) (process, estimate float64) {
	return s.scrape(metrics, `tempomat_cost_seconds_total{source="process"}`), s.scrape(metrics, `tempomat_cost_seconds_total{source="estimate"}`)
}

// used returns the CPU time of Apache and its workers. For workers that have ended, its resolution is 10 ms.
func (a *apache) used() time.Duration {
	a.t.Helper()
	var all time.Duration
	for _, pid := range append(a.workers(), a.Proc.Pid) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid)) // the process may have ended
		var ns time.Duration
		_, _ = fmt.Sscan(string(text), &ns)
		all += ns
	}
	_, stat, _ := strings.Cut(testkit.ReadFile(a.t, fmt.Sprintf("/proc/%d/stat", a.Proc.Pid)), ") ")
	for _, ticks := range strings.Fields(stat)[13:15] { // including children that have ended
		n, err := strconv.Atoi(ticks)
		testkit.Must(a.t, err)
		all += time.Duration(n) * 10 * time.Millisecond
	}
	return all
}

// TestExactBill compares the charges for Apache's pages with the CPU time that PHP measures: with workers that the
// proxy finds, with workers that report, and with neither.
func TestExactBill(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(tempDir(t), "w.sock")
	testkit.Must(t, os.Chmod(filepath.Dir(socket), 0o755))
	tells := startApache(t, "--prepend", telling(t, socket))
	for name, c := range map[string]struct {
		lines  string
		rights bool
		known  bool
		log    string // part of a log line
	}{
		"found":                {"", true, true, "is measured in the backend's workers"},
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
			ask := func(client string, rounds int) {
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						web := newClient(t)
						for range rounds {
							fetch(t, web, http.MethodGet, s.url+"/page.php?ms=60", http.Header{"X-Forwarded-For": {client}}, nil)
							fetch(t, web, http.MethodGet, s.url+"/sleep.php?ms=60", http.Header{"X-Forwarded-For": {client}}, nil)
						}
					})
				}
				all.Wait()
			}
			ask("198.51.101.1", 1) // the CPU time of a worker before its first known request is estimated
			round := func(client string) (cpu, used time.Duration, process, estimate float64) {
				start := tells.used()
				knownBefore, estimatedBefore := s.costs(metrics)
				ask(client, 3)
				process, estimate = s.costs(metrics)
				// used includes the CPU time of Apache itself, which is higher on a busy machine.
				return tells.cpu(client), tells.used() - start, process - knownBefore, estimate - estimatedBefore
			}
			for from, n := time.Now(), 1; ; n++ {
				cpu, used, process, estimate := round(fmt.Sprintf("198.51.%d.%d", len(name), n)) // php.log contains the requests of all tests
				t.Logf("PHP used %v, all of Apache %v; known %.3f s, estimated %.3f s", cpu, used, process, estimate)
				if c.known && estimate > 0 && time.Since(from) < testkit.Patience/2 {
					continue // the machine was too busy to find a worker in time
				}
				if c.known && (process < 0.85*cpu.Seconds() || process > 1.15*used.Seconds()) || !c.known && (process > 0 || estimate == 0) {
					t.Error("this is more or less than was used, or is known without rights")
				}
				break
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
				testkit.Eventually(t, "the log says "+c.log, func() bool { return strings.Count(s.Stderr.String(), c.log) == 1 })
			}
		})
	}
}

// TestSocketThatNobodyTellsBy: an administrator who has set cost.socket is shown what is wrong with the socket. When
// its directory exists, a reload opens the socket, even if the configuration is the same.
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
	gateSays("workers can't report through cost.socket")
	testkit.Must(t, os.Mkdir(directory, 0o755))
	if status, _, text := s.doctor("reload"); status != 0 {
		t.Fatal(text)
	}
	gateSays("no worker reports through cost.socket, and tempomat can't measure workers without reports")
}

// telling returns the path of a file that makes PHP report to the socket (auto_prepend_file).
func telling(t *testing.T, socket string) string {
	t.Helper()
	text := testkit.ReadFile(t, "../../deploy/php/tempomat-worker.php")
	name := filepath.Join(tempDir(t), "prepend.php")
	testkit.ReplaceFile(t, name, strings.Replace(text, "/run/tempomat/worker.sock", socket, 1))
	return forEverybody(t, name)
}

// withoutRights returns the beginning of a command that runs without capabilities. If an ordinary user runs the tests,
// Apache's workers also belong to this user, and the proxy finds them.
func withoutRights(t *testing.T) []string {
	t.Helper()
	testkit.Root(t, "Apache's workers are this user's")
	return []string{testkit.Program(t, "setpriv"), "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"}
}

// TestSilentWithoutAProxy: PHP still serves the page at once if no program listens on the socket to which it reports,
// or if the socket is full.
func TestSilentWithoutAProxy(t *testing.T) {
	t.Parallel()
	full := filepath.Join(tempDir(t), "full.sock")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: full, Net: "unixgram"})
	testkit.Must(t, err)
	defer func() { _ = l.Close() }() // the socket isn't read
	testkit.Must(t, errors.Join(os.Chmod(full, 0o666), os.Chmod(filepath.Dir(full), 0o755)))
	for name, socket := range map[string]string{"no program listens": "/nowhere/w.sock", "it is full": full} {
		a := startApache(t, "--workers", "2", "--prepend", telling(t, socket))
		web := newClient(t)
		for range 700 { // more datagrams than the kernel keeps
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

// slowly makes accounts earn so little that their levels show the sum of all charges.
const slowly = `
cpuCount: 1
classes:
  slash32:   {share: 0.000001, burst: 1h}
  slash24:   {share: 0.000001, burst: 1h}
  slash16:   {share: 0.000001, burst: 1h}
  userAgent: {share: 0.000001, burst: 1h}
`

// charged returns the CPU time that a key was charged since the start. The proxy must be configured with slowly.
func (s *sidecarProcess) charged(class, id string) time.Duration {
	s.t.Helper()
	row, ok := s.account(class, id)
	if !ok {
		s.t.Fatalf("%s %s is not known", class, id)
	}
	return time.Duration((3600 - row.Level) * float64(time.Second))
}

// TestCostHeader: the backend reports costs with the file that tempomat ships, and no client sees them.
func TestCostHeader(t *testing.T) {
	t.Parallel()
	backend := startApache(t, "--prepend", forEverybody(t, "../../deploy/apache/tempomat-cost.php"))
	if itself := fetch(t, newClient(t), http.MethodGet, backend.url+"/page.php?ms=1", nil, nil); itself.Header.Get("Tempomat-Cost") == "" {
		t.Fatal("the backend tells no cost")
	}
	s := startProxy(t, backend.url, slowly+"cost: {source: header}\n")
	const pages, sleeps = "203.0.113.1", "198.51.100.2"
	var took time.Duration
	for range 3 {
		a := s.get(pages, "/page.php?ms=200")
		b := s.get(sleeps, "/sleep.php?ms=300")
		took += b.took
		for _, r := range []answer{a, b} {
			if v, ok := r.Header["Tempomat-Cost"]; ok || r.StatusCode != http.StatusOK {
				t.Errorf("%s: the client got Tempomat-Cost: %q", r.Status, v)
			}
		}
	}
	cpu, cost, slept := backend.cpu(pages), s.charged("slash32", pages), s.charged("slash32", sleeps)
	if cost < cpu*9/10 || cost > 2*cpu {
		t.Errorf("charged %v for %v of CPU", cost, cpu)
	}
	if slept >= took/4 { // sleeping uses no CPU time
		t.Errorf("charged %v for %v of sleep", slept, took)
	}
}

// forEverybody copies a file to a place where Apache's workers, which may run as another user, can read it.
func forEverybody(t *testing.T, name string) (copied string) {
	t.Helper()
	dir := tempDir(t)
	copied = filepath.Join(dir, filepath.Base(name))
	testkit.WriteFile(t, copied, testkit.ReadFile(t, name), 0o644)
	testkit.Must(t, errors.Join(os.Chmod(copied, 0o644), os.Chmod(dir, 0o755)))
	return copied
}
