package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"tempomat/proxy/admin/api"
)

// ways are the ways to have the proxy read its configuration again. Each
// returns when that is done, with the log's line that says so.
var ways = []struct {
	name   string
	reload func(s *sidecarProcess, from int, outcome string) (next int)
}{
	{"SIGHUP", func(s *sidecarProcess, from int, outcome string) int {
		s.signal(syscall.SIGHUP)
		_, next := s.stderr.Await(s.t, from, outcome)
		return next
	}},
	{"doctor", func(s *sidecarProcess, from int, outcome string) int {
		status, out, errs := s.doctor("reload")
		if want := outcome == reloaded; (status == 0) != want || strings.Contains(out, "reloaded\n") != want {
			s.t.Errorf("the doctor: %d %q %q", status, out, errs)
		}
		if outcome == rejected && !strings.Contains(errs, "tempomat.yaml:4: throttle.mode: fast: must be") {
			s.t.Errorf("the doctor does not say what is wrong: %q", errs)
		}
		_, next := s.stderr.Await(s.t, from, outcome)
		return next
	}},
}

const (
	reloaded = `"msg":"reloaded"`
	rejected = `"msg":"configuration rejected; the running one stays"`
)

const observing = `throttle: {mode: observe, maxHold: 1s}
cpuCount: 1
classes: {slash32: {share: 0.01, burst: 0s}, slash24: {share: 0.25}, slash16: off, userAgent: off}
`

func TestReload(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s := startProxy(t, backend.url, observing)
			const debtor = "198.51.100.1"
			for range 2 {
				s.get(debtor, "/page.php?ms=300")
			}
			before, _ := s.account("slash32", debtor)
			if before.Level > -0.3 {
				t.Fatalf("%s has no debt: %+v", debtor, before)
			}
			t.Run("good", func(t *testing.T) { takesGoodFile(t, s, backend, way.reload) })
			after, _ := s.account("slash32", debtor)
			// It earned something meanwhile; that it lost its debt would be more.
			if after.Level < before.Level || after.Level > before.Level+0.2 {
				t.Errorf("the debt was %v and is %v", before.Level, after.Level)
			}
			// What was only observed before counts now.
			if a := s.get(debtor, "/style.css"); a.StatusCode != http.StatusTooManyRequests {
				t.Errorf("the debtor got %s", a.Status)
			}
			t.Run("bad", func(t *testing.T) { keepsOnBadFile(t, s, backend, way.reload) })
			t.Run("restart", func(t *testing.T) { namesWhatNeedsRestart(t, s, backend, way.reload) })
		})
	}
}

func takesGoodFile(t *testing.T, s *sidecarProcess, backend *apache, reload func(*sidecarProcess, int, string) int) {
	from := s.stderr.Len()
	s.configure(t, backend.url, strings.NewReplacer("observe", "cap", "0.25", "0.5", "slash16: off", "slash16: {share: 0.75}").Replace(observing))
	reload(s, from, reloaded)
	s.stderr.Await(t, from, `"msg":"changed"`, `"key":"throttle.mode"`, `"old":"observe"`, `"new":"cap"`)
	s.stderr.Await(t, from, `"msg":"changed"`, `"key":"classes.slash24"`, `"old":"share 0.25, burst 30s"`, `"new":"share 0.5, burst 30s"`)
	s.stderr.Await(t, from, `"msg":"changed"`, `"key":"classes.slash16"`, `"old":"off"`)
	if n := s.stderr.Count(from, `"msg":"changed`); n != 3 {
		t.Errorf("%d keys are said to have changed, want 3:\n%s", n, s.stderr)
	}
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

func keepsOnBadFile(t *testing.T, s *sidecarProcess, backend *apache, reload func(*sidecarProcess, int, string) int) {
	from := s.stderr.Len()
	var before, after api.ClassesReply
	s.ask("/v1/classes", &before)
	s.configure(t, backend.url, "throttle: {mode: fast}\nclasses:\n  slash32: {share: 7, bust: 1s}\n")
	reload(s, from, rejected)
	for _, fault := range []string{
		`tempomat.yaml:4: throttle.mode: fast: `, `"line":4,"key":"throttle.mode"`,
		`"line":6,"key":"classes.slash32.share"`, `"line":6,"key":"classes.slash32.bust"`,
	} {
		s.stderr.Await(t, from, rejected, fault)
	}
	s.ask("/v1/classes", &after)
	if fmt.Sprint(after.Classes) != fmt.Sprint(before.Classes) {
		t.Errorf("the classes were %v and are %v", before, after)
	}
	if st := s.stats(); st.Mode != "cap" || st.Counters["reloads"] != 1 || st.Counters["reloadsRejected"] != 1 {
		t.Errorf("status %+v", st)
	}
	if a := s.get("203.0.113.1", "/style.css"); a.StatusCode != http.StatusOK {
		t.Errorf("the running one serves %s", a.Status)
	}
}

// TestReloadOfNoSite: a file that was cut off has no backend, and one whose backend is the address that is served, whatever
// listen says now, has the proxy ask itself. Both are refused, and the site is served as before.
func TestReloadOfNoSite(t *testing.T) {
	t.Parallel()
	backend := pageBackend(t)
	s := startProxy(t, backend, "")
	for text, fault := range map[string]string{
		"":               "tempomat.yaml: backend: is not given",
		"# backend: x\n": "tempomat.yaml: backend: is not given",
		"listen: ':8888'\nstate: off\nbackend: " + s.url + "\n": "requests would go in a circle",
	} {
		from := s.stderr.Len()
		writeFile(t, s.file, text)
		if status, _, errs := s.doctor("reload"); status == 0 || !strings.Contains(errs, fault) {
			t.Errorf("%q: %d, %s", text, status, errs)
		}
		s.stderr.Await(t, from, rejected, fault)
		if a := s.get("203.0.113.1", "/"); a.StatusCode != http.StatusOK {
			t.Errorf("%q: the running one serves %s", text, a.Status)
		}
		if status, _, errs := execute(t, nil, program(t, "tempomat-proxy"), "-check", "-config", s.file); status == 0 && strings.Contains(fault, "backend:") {
			t.Errorf("%q is sound: %s", text, errs)
		}
	}
	if err := os.Remove(s.file); err != nil {
		t.Fatal(err)
	}
	if status, _, errs := s.doctor("reload"); status == 0 || !strings.Contains(errs, "no such file") {
		t.Errorf("without a file: %d, %s", status, errs)
	}
	if st := s.stats(); st.Counters["reloadsRejected"] != 4 || st.Mode != "fair" {
		t.Errorf("status %+v", st)
	}
}

func namesWhatNeedsRestart(t *testing.T, s *sidecarProcess, backend *apache, reload func(*sidecarProcess, int, string) int) {
	from := s.stderr.Len()
	s.configure(t, backend.url, "listen: 127.0.0.1:1\ntable: {size: 2048}\n")
	reload(s, from, reloaded)
	const waits = `"msg":"changed, but only a restart can put it in force"`
	s.stderr.Await(t, from, waits, `"key":"listen"`, `"new":"127.0.0.1:1"`)
	s.stderr.Await(t, from, waits, `"key":"table.size"`, `"new":"2048"`)
	if n := s.stderr.Count(from, waits); n != 2 {
		t.Errorf("%d keys are said to need a restart, want 2:\n%s", n, s.stderr)
	}
	if a := s.get("203.0.113.1", "/style.css"); a.StatusCode != http.StatusOK {
		t.Errorf("the listener serves %s", a.Status)
	}
	const doctorSays = "These settings need a restart: listen, table.size\n"
	for range 2 { // they wait on, though the file is the same as at the reload before
		if _, out, _ := s.doctor("reload"); !strings.Contains(out, doctorSays) {
			t.Errorf("the doctor says %q, want %q", out, doctorSays)
		}
	}
	from = s.stderr.Len()
	s.configure(t, backend.url, "cpuCount: 1\n")
	if _, out, _ := s.doctor("reload"); strings.Contains(out, "restart") || s.stderr.Count(from, waits) != 0 {
		t.Errorf("what it began with waits for a restart: %q\n%s", out, s.stderr)
	}
}
