package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/proxy/admin/api"
)

const (
	reloaded = `"msg":"reloaded"`
	rejected = `"msg":"configuration rejected; the current one stays in use"`
)

// reload makes the proxy read its configuration again, and waits for the log line with the outcome.
func (s *sidecarProcess) reload(outcome string) {
	s.t.Helper()
	from := s.Stderr.Len()
	s.Signal(syscall.SIGHUP)
	s.Stderr.Await(s.t, from, outcome)
}

const observing = `throttle: {mode: observe, maxHold: 1s}
cpuCount: 1
classes: {slash32: {share: 0.01, burst: 0s}, slash24: {share: 0.25}, slash16: off, userAgent: off}
`

func TestReload(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	s := startProxy(t, backend.url, observing)
	const debtor = "198.51.100.1"
	for range 2 {
		s.get(debtor, "/page.php?ms=300")
	}
	before, _ := s.account("slash32", debtor)
	if before.Level > -0.3 {
		t.Fatalf("%s has no debt: %+v", debtor, before)
	}
	t.Run("good", func(t *testing.T) { takesGoodFile(t, s, backend) })
	after, _ := s.account("slash32", debtor)
	// The client has earned CPU time since then, but much less than its debt.
	if after.Level < before.Level || after.Level > before.Level+0.2 {
		t.Errorf("the debt was %v and is %v", before.Level, after.Level)
	}
	// The debt, which was only observed before, now has an effect.
	testkit.Same(t, http.StatusTooManyRequests, s.get(debtor, "/style.css").StatusCode, "the debtor's status")
	t.Run("bad", func(t *testing.T) { keepsOnBadFile(t, s, backend) })
	t.Run("restart", func(t *testing.T) { namesWhatNeedsRestart(t, s, backend) })
}

func takesGoodFile(t *testing.T, s *sidecarProcess, backend *apache) {
	from := s.Stderr.Len()
	s.configure(t, backend.url, strings.NewReplacer("observe", "cap", "0.25", "0.5", "slash16: off", "slash16: {share: 0.75}").Replace(observing))
	s.reload(reloaded)
	s.Stderr.Await(t, from, `"msg":"setting changed"`, `"key":"throttle.mode"`, `"old":"observe"`, `"new":"cap"`)
	s.Stderr.Await(t, from, `"msg":"setting changed"`, `"key":"classes.slash24"`, `"old":"share 0.25, burst 30s"`, `"new":"share 0.5, burst 30s"`)
	s.Stderr.Await(t, from, `"msg":"setting changed"`, `"key":"classes.slash16"`, `"old":"off"`)
	testkit.Same(t, 3, s.Stderr.Count(from, `"msg":"setting changed"`), "keys that are said to have changed, in\n%s", s.Stderr)
	var known api.ClassesReply
	s.ask("/v1/classes", &known)
	var got []string
	for _, c := range known.Classes {
		got = append(got, fmt.Sprintf("%s %g", c.Name, c.CPUs))
	}
	if want := "slash32 0.01, slash24 0.5, slash16 0.75, robot 0.1"; strings.Join(got, ", ") != want {
		t.Errorf("classes %v, want %v", got, want)
	}
	if st := s.stats(); st.Mode != "cap" || st.Counters["reloads"] != 1 || st.Counters["reloadsRejected"] != 0 {
		t.Errorf("status %+v", st)
	}
}

func keepsOnBadFile(t *testing.T, s *sidecarProcess, backend *apache) {
	from := s.Stderr.Len()
	var before, after api.ClassesReply
	s.ask("/v1/classes", &before)
	s.configure(t, backend.url, "throttle: {mode: fast}\nclasses:\n  slash32: {share: 7, bust: 1s}\n")
	s.reload(rejected)
	for _, fault := range []string{
		`tempomat.yaml:4: throttle.mode: fast: `, `"line":4,"key":"throttle.mode"`,
		`"line":6,"key":"classes.slash32.share"`, `"line":6,"key":"classes.slash32.bust"`,
	} {
		s.Stderr.Await(t, from, rejected, fault)
	}
	s.ask("/v1/classes", &after)
	testkit.Same(t, before.Classes, after.Classes, "the classes")
	if st := s.stats(); st.Mode != "cap" || st.Counters["reloads"] != 1 || st.Counters["reloadsRejected"] != 1 {
		t.Errorf("status %+v", st)
	}
	testkit.Same(t, http.StatusOK, s.get("203.0.113.1", "/style.css").StatusCode, "with the running configuration: status")
}

// TestReloadOfNoSite: a truncated file has no backend. If the backend is an address that the proxy serves, even one that
// listen no longer contains, requests would loop. Both files are rejected, and the site is served as before.
func TestReloadOfNoSite(t *testing.T) {
	t.Parallel()
	backend := pageBackend(t)
	s := startProxy(t, backend, "")
	for text, fault := range map[string]string{
		"":               "tempomat.yaml: backend: is given neither",
		"# backend: x\n": "tempomat.yaml: backend: is given neither",
		"listen: ':8888'\nstate: off\nbackend: " + s.url + "\n": "requests would loop",
	} {
		from := s.Stderr.Len()
		testkit.ReplaceFile(t, s.file, text)
		if status, _, errs := s.doctor("reload"); status == 0 || !strings.Contains(errs, fault) {
			t.Errorf("%q: %d, %s", text, status, errs)
		}
		s.Stderr.Await(t, from, rejected, fault)
		s.served("203.0.113.1")
		if status, _, errs := testkit.Execute(t, nil, program(t, "tempomat-proxy"), "-check", "-config", s.file); status == 0 && strings.Contains(fault, "backend:") {
			t.Errorf("%q is sound: %s", text, errs)
		}
	}
	testkit.Must(t, os.Remove(s.file))
	if status, _, errs := s.doctor("reload"); status == 0 || !strings.Contains(errs, "no such file") {
		t.Errorf("without a file: %d, %s", status, errs)
	}
	if st := s.stats(); st.Counters["reloadsRejected"] != 4 || st.Mode != "fair" {
		t.Errorf("status %+v", st)
	}
}

func namesWhatNeedsRestart(t *testing.T, s *sidecarProcess, backend *apache) {
	from := s.Stderr.Len()
	s.configure(t, backend.url, "listen: 127.0.0.1:1\ntable: {size: 2048}\n")
	s.reload(reloaded)
	const waits = `"msg":"a changed setting takes effect only after a restart"`
	s.Stderr.Await(t, from, waits, `"key":"listen"`, `"new":"127.0.0.1:1"`)
	s.Stderr.Await(t, from, waits, `"key":"table.size"`, `"new":"2048"`)
	testkit.Same(t, 2, s.Stderr.Count(from, waits), "keys that are said to need a restart, in\n%s", s.Stderr)
	testkit.Same(t, http.StatusOK, s.get("203.0.113.1", "/style.css").StatusCode, "at the same listener: status")
	const doctorSays = "reloaded\nThese settings need a restart: listen, table.size\n"
	for range 2 { // the keys still need a restart if the file hasn't changed since the last reload
		from = s.Stderr.Len()
		if _, out, _ := s.doctor("reload"); !strings.Contains(out, doctorSays) {
			t.Errorf("the doctor says %q, want %q", out, doctorSays)
		}
		s.Stderr.Await(t, from, reloaded) // the log may come later than the doctor's answer
	}
	from = s.Stderr.Len()
	s.configure(t, backend.url, "cpuCount: 1\n")
	if _, out, _ := s.doctor("reload"); strings.Contains(out, "restart") || s.Stderr.Count(from, waits) != 0 {
		t.Errorf("what it began with waits for a restart: %q\n%s", out, s.Stderr)
	}
}

// TestFilesOfTheConfiguration: the proxy reads the files that the configuration names at the start and at each reload.
// If a file is broken, the log names it with its fault, and its previous content stays in use.
func TestFilesOfTheConfiguration(t *testing.T) {
	t.Parallel()
	echo := startBackend(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(strings.Join(r.Header["X-Forwarded-For"], ", ")))
	})
	const client, nobody = "198.51.100.9", "http://127.0.0.1:9"
	for name, c := range map[string]struct {
		backend, yaml, file   string   // yaml has %s for the file's directory
		first, second, broken string   // contents of the file
		before, after         string   // part of the answer to a client
		changed, rejected     []string // lines of the log
	}{
		"error pages": {
			nobody, "errorPages: {directory: %s}\n", "error.html",
			"<title>first {{.Language}}</title>", "<title>second {{.Language}}</title>", "<!doctype html>\n<title>broken {{.Langage}}</title>",
			"<title>first de</title>", "<title>second de</title>",
			nil, []string{"error.html:2:", "Langage"},
		},
		"trusted proxies": {
			echo, "trustedProxies: [\"file:%s/proxies.txt\"]\n", "proxies.txt",
			"# nobody here\n192.0.2.1\n", "192.0.2.1\n\n127.0.0.0/8 # this machine\n", "192.0.2.1\n<html>\n",
			"127.0.0.1", client + ", 127.0.0.1",
			[]string{`"msg":"setting changed"`, `"key":"trustedProxies","old":"file:`, ` (1)","new":"file:`, ` (2)"`}, []string{"proxies.txt:2:", "trustedProxies"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put := func(text string) { testkit.WriteFile(t, filepath.Join(dir, c.file), text, 0o644) }
			put(c.first)
			s := startProxy(t, c.backend, fmt.Sprintf(c.yaml, dir))
			shows := func(when, want string) {
				t.Helper()
				h := from(client)
				h.Set("Accept", "text/html")
				h.Set("Accept-Language", "de")
				if a := fetch(t, newClient(t), http.MethodGet, s.url+"/", h, nil); a.body != want {
					t.Errorf("%s: %s %q, want %q", when, a.Status, a.body, want)
				}
			}
			shows("at first", c.before)
			put(c.second)
			s.reload(reloaded)
			s.Stderr.Await(t, 0, c.changed...)
			shows("after another one", c.after)
			put(c.broken)
			s.reload(rejected)
			s.Stderr.Await(t, 0, append(c.rejected, rejected)...)
			shows("after a broken file", c.after)
		})
	}
}

// TestMetricsGoOn: counts continue after a reload, a rejected reload is reported, and a process that takes over answers
// Prometheus at the same address.
func TestMetricsGoOn(t *testing.T) {
	t.Parallel()
	metrics := "127.0.0.1:" + freePort(t)
	backend := pageBackend(t)
	yaml := "state: off\nmetrics: \"" + metrics + "\"\nlimits: ["
	const login, other = "{name: login, path: /form, rate: 1/hour}", "{name: other, path: /other, rate: 1/hour}"
	s := startProxy(t, backend, yaml+login+", "+other+"]\n")
	for range 3 {
		s.get("198.51.100.1", "/form")
	}
	holds := func(when string, want map[string]float64) {
		t.Helper()
		for series, x := range want {
			testkit.Same(t, x, s.scrape(metrics, series), "%s: %s", when, series)
		}
	}
	holds("at first", map[string]float64{
		`tempomat_limit_matched_total{limit="login"`: 3, `tempomat_limit_refused_total{limit="login"`: 2,
		`tempomat_refused_total{group="robots",reason="limit"`: 2, `tempomat_requests_total`: 3, `tempomat_mode`: 1,
	})
	s.configure(t, backend, yaml+login+"]\nthrottle: {mode: wrong}\n")
	s.doctor("reload")
	testkit.Same(t, 1, s.stats().Counters["reloadsRejected"], "reloads rejected")
	s.get("198.51.100.2", "/form")
	holds("rejected", map[string]float64{`tempomat_limit_matched_total{limit="login"`: 4, `tempomat_reload_ok`: 0})
	s.configure(t, backend, yaml+login+"]\n")
	if status, _, stderr := s.doctor("reload"); status != 0 {
		t.Fatal(stderr)
	}
	s.get("198.51.100.3", "/form")
	holds("reloaded", map[string]float64{`tempomat_limit_matched_total`: 5, `tempomat_limit_refused_total`: 2, `tempomat_reload_ok`: 1})
	s = s.successor()
	s.get("198.51.100.3", "/form")
	testkit.Eventually(t, "the new process answers Prometheus", func() bool { return s.scrape(metrics, `tempomat_requests_total`) == 1 })
}
