package main

import (
	"testing"

	"tempomat/internal/testkit"
)

// TestMetricsGoOn: counts continue after a reload, a rejected reload is reported, and a process that takes over answers
// Prometheus at the same address.
func TestMetricsGoOn(t *testing.T) {
	t.Parallel()
	metrics := "127.0.0.1:" + freePort(t)
	backend := plain(t)
	yaml := "state: off\nmetrics: \"" + metrics + "\"\nlimits: ["
	const login, other = "{name: login, path: /login, rate: 1/hour}", "{name: other, path: /other, rate: 1/hour}"
	s := startProxy(t, backend, yaml+login+", "+other+"]\n")
	for range 3 {
		s.get("198.51.100.1", "/login")
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
	s.get("198.51.100.2", "/login")
	holds("rejected", map[string]float64{`tempomat_limit_matched_total{limit="login"`: 4, `tempomat_reload_ok`: 0})
	s.configure(t, backend, yaml+login+"]\n")
	if status, _, stderr := s.doctor("reload"); status != 0 {
		t.Fatal(stderr)
	}
	s.get("198.51.100.3", "/login")
	holds("reloaded", map[string]float64{`tempomat_limit_matched_total`: 5, `tempomat_limit_refused_total`: 2, `tempomat_reload_ok`: 1})
	s = s.successor()
	s.get("198.51.100.3", "/login")
	testkit.Eventually(t, "the new process answers Prometheus", func() bool { return s.scrape(metrics, `tempomat_requests_total`) == 1 })
}
