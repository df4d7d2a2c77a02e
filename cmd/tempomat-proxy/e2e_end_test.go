package main

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"tempomat/internal/testkit"
)

// TestDrain: what is under way at SIGTERM is finished, also what waits.
func TestDrain(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	for _, mode := range []string{"cap", "cooperative"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s := startProxy(t, backend.url, "throttle: {mode: "+mode+`, maxHold: 1m}
cost: {source: wall}
cpuCount: 1
classes: {slash32: {share: 1, burst: 0s}, slash24: off, slash16: off, userAgent: off}
`)
			// One runs; another client's two cost a second each, so that the second of
			// them waits for the first, or is held for it.
			running := s.later(from("198.51.100.1"), "/sleep.php?ms=1500")
			one := s.later(from("198.51.100.2"), "/sleep.php?ms=1000")
			testkit.Eventually(t, "two running requests", func() bool {
				a, _ := s.account("slash32", "198.51.100.1")
				b, _ := s.account("slash32", "198.51.100.2")
				return a.Running == 1 && b.Running == 1
			})
			two := s.later(from("198.51.100.2"), "/sleep.php?ms=1000")
			testkit.Eventually(t, "one that is held", func() bool { return s.stats().Held == 1 })
			s.signal(syscall.SIGTERM)
			s.stderr.Await(t, 0, `"msg":"draining"`)
			testkit.Eventually(t, "a refused connection", func() bool {
				c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
				if err == nil {
					_ = c.Close()
				}
				return err != nil
			})
			for name, got := range map[string]<-chan string{"running": running, "first": one, "second": two} {
				if status := <-got; status != "200 OK" {
					t.Errorf("%s: %s", name, status)
				}
			}
			s.exits(0)
			if s.stderr.Count(0, "cut what did not finish") > 0 {
				t.Errorf("something was cut:\n%s", s.stderr)
			}
			if _, err := os.Stat(s.admin); err == nil {
				t.Error("the admin socket is left behind")
			}
		})
	}
}

// TestExitStatus runs the program with what it can not do.
func TestExitStatus(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := tempDir(t)
	good, bad, busy := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml"), filepath.Join(dir, "busy.yaml")
	writeFile(t, good, "listen: 127.0.0.1:0\nbackend: http://127.0.0.1:1\nadmin: {listen: off}\n")
	writeFile(t, bad, "throttle: {mode: fast}\n")
	writeFile(t, busy, "listen: ["+taken.Addr().String()+"]\nbackend: http://127.0.0.1:1\nadmin: {listen: off}\n")
	for _, c := range []struct {
		args    []string
		status  int
		out, er string
	}{
		{[]string{"-config", bad}, 1, "", bad + ":1: throttle.mode: fast: must be"},
		{[]string{"-config", filepath.Join(dir, "none.yaml")}, 1, "", "none.yaml: no such file or directory\n" + setupHint},
		{[]string{"-check", "-config", filepath.Join(dir, "none.yaml")}, 1, "", "none.yaml: no such file or directory\n" + setupHint},
		{[]string{"-config", busy}, 1, "", "listen on " + taken.Addr().String() + ": listen tcp " + taken.Addr().String() + ": bind: address already in use"},
		{[]string{"-confg", good}, 2, "", "unknown flag: --confg"},
		{[]string{"-config"}, 2, "", "flag needs an argument: --config"},
		{[]string{"-version"}, 0, builtVersion + "\n", ""},
		{[]string{"-check", "-config", good}, 0, good + " is valid\n", ""},
		// checking opens nothing: the port is taken
		{[]string{"-check", "-config", busy}, 0, "\nadmin.listen off\n", ""},
		{[]string{"-check", "-v", "-config", busy}, 0, "\nadmin.listen off\n", ""},
		{[]string{"-check", "-config", bad}, 1, "", bad + ":1: throttle.mode: fast: must be"},
	} {
		status, out, errs := execute(t, nil, program(t, "tempomat-proxy"), c.args...)
		columns := regexp.MustCompile(" +").ReplaceAllString(out, " ") // however wide they are
		if status != c.status || !strings.Contains(columns, c.out) || !strings.Contains(errs, c.er) ||
			(c.out == "") != (out == "") || (c.er == "") != (errs == "") {
			t.Errorf("%q: status %d, want %d\nstdout: %q has to have %q\nstderr: %q has to have %q",
				c.args, status, c.status, out, c.out, errs, c.er)
		}
	}
}

// TestCheck: the original's file is good and says what it means, and of a bad
// one everything is told.
func TestCheck(t *testing.T) {
	t.Parallel()
	const good, bad = "../../testdata/config/good/", "../../testdata/config/bad/"
	status, out, errs := execute(t, nil, program(t, "tempomat-proxy"), "-check", "-v", "-config", good+"tempomat.json")
	if status != 0 || errs != "" {
		t.Errorf("the original's file: %d %s", status, errs)
	}
	for _, line := range []string{
		"slash32    0.4 CPU-s/s per key (share 0.1 of 4 CPUs)",
		"slash24    1 CPU-s/s per key (share 0.25 of 4 CPUs)",
		"slash16    2 CPU-s/s per key (share 0.5 of 4 CPUs)",
		"userAgent  0.4 CPU-s/s per key (share 0.1 of 4 CPUs)",
	} {
		if !strings.Contains(out, line) {
			t.Errorf("no %q in:\n%s", line, out)
		}
	}
	want, err := os.ReadFile(bad + "several.yaml.err")
	if err != nil {
		t.Fatal(err)
	}
	status, out, errs = execute(t, nil, program(t, "tempomat-proxy"), "-check", "-config", bad+"several.yaml")
	if status != 1 || out != "" || strings.ReplaceAll(errs, bad, "") != string(want) {
		t.Errorf("a bad file: %d %q\n%s\nwant:\n%s", status, out, errs, want)
	}
}
