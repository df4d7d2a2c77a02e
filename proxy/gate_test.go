package proxy

import (
	"io"
	"net/http"
	"testing"
	"time"

	"tempomat/classify/standing"
	"tempomat/cpuaccount"
	"tempomat/limiter"
)

// fairly is mode fair with room for one of a size. The cost is the wall time.
func fairly(s *setup) {
	s.limits.Mode = limiter.Fair
	s.limits.Gate = limiter.GateOptions{CPUs: 1, Workers: 16, Heavy: 1}.Complete()
	s.source = cpuaccount.Wall
}

// site answers /heavy after a second and all else after 10 ms.
func site(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/heavy" {
		time.Sleep(time.Second)
	} else {
		time.Sleep(10 * time.Millisecond)
	}
	_, _ = io.WriteString(w, "hello")
}

// learn has the proxy know what the site's pages cost.
func (r *rig) learn() {
	for range 3 {
		r.do(r.client, request(r.t, nil, "GET /heavy"))
		r.do(r.client, request(r.t, nil, "GET /light"))
	}
}

// TestStandingHeaderIsForNobody checks that no client sees what the backend says
// of it, and that what a client says of itself is not believed.
func TestStandingHeaderIsForNobody(t *testing.T) {
	for _, judged := range []bool{false, true} {
		r := start(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/vouched" {
				w.Header().Set(standing.Header, "6")
			}
		}), fairly)
		if judged {
			standing, err := standing.New([16]byte{}, standing.Config{Attested: 4, ClientClass: "slash32", SessionClass: "session"})
			if err != nil {
				t.Fatal(err)
			}
			p := *r.handler.Policy()
			p.Standing = standing
			r.handler.SetPolicy(&p)
		}
		for i, path := range []string{"/", "/vouched", "/"} {
			res, _ := r.do(r.client, request(t, nil, "GET "+path, standing.Header+": 8"))
			if got, ok := res.Header[standing.Header]; ok {
				t.Errorf("judged %t: the client sees %q", judged, got)
			}
			want := 1.0
			if judged && i == 2 {
				want = 6
			}
			if c := r.row().Client; c == nil || c.Standing != want {
				t.Errorf("judged %t, request %d: standing %+v, want %g", judged, i, c, want)
			}
		}
	}
}
