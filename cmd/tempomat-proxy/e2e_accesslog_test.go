package main

import (
	"net/http"
	"regexp"
	"testing"

	"tempomat/limiter/testkit"
)

// TestCombinedLog: a reload changes the form of the access log, and back.
func TestCombinedLog(t *testing.T) {
	backend := plain(t)
	s := startProxy(t, backend, "log: {access: all, format: combined}\n")
	line := regexp.MustCompile(`(?m)^198\.51\.100\.1 - - \[[^]]+\] "GET /a\?\* HTTP/1\.1" 200 - "-" "[^"]*" \d+$`)
	logged := func(pattern *regexp.Regexp) func() bool {
		return func() bool { return pattern.MatchString(s.stderr.String()) }
	}
	s.get("198.51.100.1", "/a?alice=1")
	testkit.Eventually(t, "a line in the combined format", logged(line))
	s.configure(t, backend, "log: {access: all}\n")
	if status, _, stderr := s.doctor("reload"); status != 0 {
		t.Fatal(stderr)
	}
	if a := s.get("198.51.100.1", "/b?c=2"); a.StatusCode != http.StatusOK {
		t.Fatal(a.Status)
	}
	testkit.Eventually(t, "a line of JSON", logged(regexp.MustCompile(`"path":"/b","shape":"/b\?c".*"group":"robots".*"query":"\*"`)))
	if regexp.MustCompile(`alice`).MatchString(s.stderr.String()) {
		t.Errorf("the query is in the log:\n%s", s.stderr)
	}
}
