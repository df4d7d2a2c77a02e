package main

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tempomat/limiter/gossip"
	"tempomat/limiter/redis"
	"tempomat/limiter/smockron"
	"tempomat/limiter/testkit"
	"tempomat/proxy/telemetry/metrics"
)

// TestSharingNumbers: each kind of sharing tells how it goes, in the same words.
func TestSharingNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		s    *sharing
		want metrics.Sharing
	}{
		"none": {&sharing{kind: "none"}, metrics.Sharing{Kind: "none"}},
		"gossip": {
			&sharing{
				kind: "gossip", ties: func() map[string]bool { return map[string]bool{"other sidecars": true} },
				state: func() any {
					return gossip.State{
						Sidecars: 3, Peers: []gossip.PeerState{{Ignored: true}, {}},
						Counts: gossip.Counts{Sent: 1, Received: 2, Dropped: 3, Expired: 4, Unsendable: 5, Malformed: 6},
					}
				},
			},
			metrics.Sharing{
				Kind: "gossip", Up: map[string]bool{"other sidecars": true}, Peers: 2, Ignored: 1, Sent: 1, Received: 2, Dropped: 7, Failed: 5, Unsound: 6,
			},
		},
		"redis": {
			&sharing{kind: "redis", state: func() any { return redis.State{RoundTrips: 1, Raised: 2, Dropped: 3, Failures: 4} }},
			metrics.Sharing{Kind: "redis", Sent: 1, Received: 2, Dropped: 3, Failed: 4},
		},
		"smockron": {
			&sharing{kind: "smockron", state: func() any {
				return []smockron.LinkState{{Sent: 1, Orders: 2, Dropped: 3, Away: 4, Old: 5, Unsound: 6}, {Sent: 1}}
			}},
			metrics.Sharing{Kind: "smockron", Sent: 2, Received: 2, Dropped: 12, Unsound: 6},
		},
		"in trouble": {
			&sharing{kind: "gossip", trouble: errors.New("no key")},
			metrics.Sharing{Kind: "gossip", Up: map[string]bool{"gossip": false}},
		},
	} {
		if diff := cmp.Diff(c.want, c.s.numbers()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestMetricsGoOn: counts go on over a reload, a rejected one is told, and who replaces the
// process answers Prometheus at the same address.
func TestMetricsGoOn(t *testing.T) {
	metrics := "127.0.0.1:" + freePort(t)
	backend := plain(t)
	yaml := "state: off\nmetrics: \"" + metrics + "\"\nlimits: ["
	const login, other = "{name: login, path: /login, size: 1, dripRate: 1h}", "{name: other, path: /other, size: 1, dripRate: 1h}"
	s := startProxy(t, backend, yaml+login+", "+other+"]\n")
	for range 3 {
		s.get("198.51.100.1", "/login")
	}
	holds := func(when string, want map[string]float64) {
		t.Helper()
		for series, x := range want {
			if got := s.scrape(metrics, series); got != x {
				t.Errorf("%s: %s is %v, want %v", when, series, got, x)
			}
		}
	}
	holds("at first", map[string]float64{
		`tempomat_limit_matched_total{limit="login"`: 3, `tempomat_limit_refused_total{limit="login"`: 2,
		`tempomat_refused_total{group="robots",reason="limit"`: 2, `tempomat_requests_total`: 3, `tempomat_mode`: 1,
	})
	s.configure(t, backend, yaml+login+"]\nthrottle: {mode: wrong}\n")
	s.doctor("reload")
	if n := s.stats().Counters["reloadsRejected"]; n != 1 {
		t.Fatalf("%d reloads rejected", n)
	}
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
