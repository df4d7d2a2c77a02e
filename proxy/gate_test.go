package proxy

import (
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/classify/standing"
	"tempomat/cpuaccount"
	"tempomat/limiter"
)

// fairly sets mode fair, with one heavy request at a time. A request's cost is its wall time.
func fairly(s *setup) {
	s.limits.Mode = limiter.Fair
	s.limits.Gate = limiter.GateOptions{CPUs: 1, Workers: 16, Heavy: 1}
	s.source = cpuaccount.Wall
}

// site answers /heavy after a second and everything else after 10 ms.
func site(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/heavy" {
		time.Sleep(time.Second)
	} else {
		time.Sleep(10 * time.Millisecond)
	}
	_, _ = io.WriteString(w, "hello")
}

// learn teaches the proxy the cost of the site's pages.
func (r *rig) learn() {
	for range 3 {
		r.do(r.client, request(r.t, nil, "GET /heavy"))
		r.do(r.client, request(r.t, nil, "GET /light"))
	}
}

// TestStanding: a client's next request has a higher standing once the client has loaded the parts of a page,
// or the backend has vouched for it. No client sees the backend's field, and a client's own field is ignored.
func TestStanding(t *testing.T) {
	for name, tc := range map[string]struct {
		judged bool
		paths  []string
		want   float64 // of the last request
	}{
		"vouched for":      {true, []string{"/", "/vouched", "/"}, 6},
		"loads parts":      {true, []string{"/", "/a.css", "/b.css", "/"}, 2},
		"nobody is judged": {false, []string{"/", "/vouched", "/a.css", "/b.css", "/"}, 1},
	} {
		inBubble(t, name, func(t *testing.T) {
			r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				if q.URL.Path == "/vouched" {
					w.Header().Set(standing.Header, "6")
				} else if strings.HasSuffix(q.URL.Path, ".css") {
					w.Header().Set("Content-Type", "text/css")
				}
			}), fairly)
			if tc.judged {
				r.judge()
			}
			for i, path := range tc.paths {
				res, _ := r.do(r.client, request(t, nil, "GET "+path, standing.Header+": 8"))
				if got, ok := res.Header[standing.Header]; ok {
					t.Errorf("the client sees %q", got)
				}
				synctest.Wait()
				want := 1.0 // before the answer
				if i == len(tc.paths)-1 {
					want = tc.want
				}
				if c := r.row().Client; c == nil || c.Standing != want {
					t.Errorf("request %d, %s: standing %+v, want %g", i, path, c, want)
				}
			}
		})
	}
}

// judge switches on the judgement of clients.
func (r *rig) judge() {
	j := standing.New([16]byte{}, standing.Config{Attested: 4, ClientClass: "slash32", SessionClass: "session"})
	r.change(func(p *Policy) { p.Standing = j })
}

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
