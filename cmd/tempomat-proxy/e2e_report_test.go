package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"tempomat/limiter/testkit"
	"tempomat/proxy/admin/api"
)

// TestReportInBrowser: what hostile clients call themselves and ask for is told of, and
// does nothing in a real browser: each of it would change the page's title.
func TestReportInBrowser(t *testing.T) {
	const script = "<script>document.title='owned'</script>"
	backend, _, _ := pageBackend(t)
	s := startProxy(t, backend, "state: off\n")
	for _, ask := range []struct{ path, agent string }{
		{"/page?q=" + script, "Crawler" + script},
		{"/%3Cimg%20src=x%20onerror=document.title='owned'%3E?a=1&b=2", `"><img src=x onerror="document.title='owned'">/1.0`},
		{"/page?\u202e", "\u202eagent\u009b31m"},
	} {
		h := http.Header{"X-Forwarded-For": {"203.0.113.9"}, "User-Agent": {ask.agent}}
		fetch(t, newClient(t), http.MethodGet, s.url+ask.path, h, nil)
	}
	testkit.Eventually(t, "the requests are told of", func() bool {
		var reply api.HistoryReply
		s.ask("/v1/history", &reply)
		n := len(reply.Hours)
		return n > 0 && reply.Hours[n-1].Requests == 3
	})
	status, text, stderr := s.doctor("report")
	if status != 0 || !strings.Contains(text, "203.0.113.9") || strings.ContainsAny(text, "\x1b\u202e\u009b\r") {
		t.Errorf("status %d, %s%s", status, text, stderr)
	}
	file := filepath.Join(tempDir(t), "report.html")
	if status, _, stderr := s.doctor("report", "--html", file); status != 0 {
		t.Fatalf("status %d, %s", status, stderr)
	}
	b := startChromium(t)
	b.open("file://" + file)
	testkit.Eventually(t, "the report is shown", func() bool { return b.shows("file://"+file, "Who used the server in the last 24 hours") })
}
