package proxy

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
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

// TestLightPassesHeavy has heavy requests queue, and a light one pass them.
func TestLightPassesHeavy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(site), fairly)
		r.learn()
		begin := time.Now()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { r.do(r.client, request(t, nil, "GET /heavy")) })
		}
		synctest.Wait()
		if g := r.limiter.GateState(); g.Computing != [7]int{3: 1} || g.Queued != 2 {
			t.Errorf("%v compute, %d wait; want 1 of a second, 2", g.Computing, g.Queued)
		}
		r.do(r.client, request(t, nil, "GET /light"))
		if took := time.Since(begin); took > 20*time.Millisecond {
			t.Errorf("the light one took %v", took)
		}
		all.Wait()
		if took := time.Since(begin); took < 3*time.Second {
			t.Errorf("three heavy ones took %v, one at a time", took)
		}
		waited := 0
		for _, line := range r.lines() {
			if line["reason"] == "busy" && line["lane"] == "heavy" && line["wait_ms"].(float64) > 900 {
				waited++
			}
		}
		if waited != 2 {
			t.Errorf("the log tells of %d that waited, want 2", waited)
		}
	})
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
