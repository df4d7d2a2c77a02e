package proxy

import (
	"math"
	"net/http"
	"testing"

	"tempomat/cpuaccount"
)

// cost returns what the only request of the access log was charged, in seconds.
func (r *rig) cost() float64 {
	r.t.Helper()
	return r.line()["cost_ms"].(float64) / 1e3
}

// TestCostHeader: the backend reports the cost of a request.
func TestCostHeader(t *testing.T) {
	for _, tc := range []struct {
		name   string
		source cpuaccount.Source
		told   []string
		want   float64
	}{
		{"used", cpuaccount.Header, []string{"0.25"}, 0.25},
		{"zero, for a second of one of 16 workers", cpuaccount.Header, []string{"0"}, 1. / 16},
		{"nothing", cpuaccount.Header, nil, 1},
		{"not asked for", cpuaccount.Corrected, []string{"0.25"}, 1},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if tc.told != nil {
					w.Header()[cpuaccount.CostHeader] = tc.told
				}
				sleeper(w, q)
			}), func(s *setup) { s.source, s.limits.Gate.Workers = tc.source, 16 })
			res, _ := r.do(r.client, request(t, nil, "GET /"))
			if told, ok := res.Header[cpuaccount.CostHeader]; ok {
				t.Errorf("the client is told %q", told)
			}
			if got := r.cost(); math.Abs(got-tc.want) > 1e-6 {
				t.Errorf("charged %f, want %f", got, tc.want)
			}
		})
	}
}
