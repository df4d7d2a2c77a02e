package metrics

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
)

// TestNoLabelLosesTheOthers: names that aren't UTF-8 or that occur twice don't suppress other numbers.
func TestNoLabelLosesTheOthers(t *testing.T) {
	s, now := full(), time.Unix(1_900_000_000, 0)
	s.Certificates = []api.Certificate{
		{File: "/etc/\xe9.pem", Expires: now}, {File: "/etc/a.pem", Expires: now.Add(time.Hour)},
		{File: "/etc/a.pem", Expires: now, Fault: "expired"}, {File: "/etc/b.pem"},
	}
	s.Gate.Sites = []limiter.SiteState{{Name: "\xff", Ended: 1}, {Name: "\xfe", Ended: 2}}
	s.ConnStats.Handshakes["\xfc"] = 1
	w := httptest.NewRecorder()
	Handler(func() *State { return s }, NewDurations()).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	for _, want := range []string{
		"tempomat_tls_certificate_expiry_seconds{certificate=\"/etc/\ufffd.pem\"} 1.9e+09\n",
		"tempomat_tls_certificate_expiry_seconds{certificate=\"/etc/a.pem\"} 1.9e+09\n",
		"tempomat_tls_certificate_ok{certificate=\"/etc/a.pem\"} 0\n", "tempomat_tls_certificate_ok{certificate=\"/etc/b.pem\"} 1\n",
		"tempomat_site_requests_total{site=\"\ufffd\"} 3\n", "tempomat_tls_handshakes_total{result=\"ok\"} 3\n", "tempomat_build_info{version=\"1.2\"} 1\n",
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("there is no %q", want)
		}
	}
	testkit.Same(t, 3, Series(s)["siteRequests._"], "requests of the sites in Graphite")
}
