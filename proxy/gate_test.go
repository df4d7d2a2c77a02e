package proxy

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/classify"
	"tempomat/cpuaccount"
	"tempomat/limiter"
)

// fairly is mode fair with one heavy slot. The cost is the wall time.
func fairly(s *setup) {
	s.limits.Mode = limiter.Fair
	s.limits.Gate = limiter.Gate{CPUs: 1, Workers: 16, Heavy: 1}.Complete()
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
		if g := r.limiter.GateState(); g.HeavyBusy != 1 || g.Queued != 2 {
			t.Errorf("%d run, %d wait; want 1, 2", g.HeavyBusy, g.Queued)
		}
		r.do(r.client, request(t, nil, "GET /light"))
		if took := time.Since(begin); took > 20*time.Millisecond {
			t.Errorf("the light one took %v", took)
		}
		all.Wait()
		if took := time.Since(begin); took < 3*time.Second {
			t.Errorf("three heavy ones took %v in one slot", took)
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

// TestWhoHangsUpFreesNoSlot has a client leave while PHP works on: the slot is
// taken until that must be done, and the client pays for it.
func TestWhoHangsUpFreesNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(site), fairly)
		r.learn()
		before := r.row().Level
		ctx, leave := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer leave()
		begin := time.Now()
		if _, err := r.client.Do(request(t, nil, "GET /heavy").WithContext(ctx)); err == nil {
			t.Fatal("it was answered")
		}
		time.Sleep(time.Until(begin.Add(900 * time.Millisecond)))
		if g := r.limiter.GateState(); g.HeavyBusy != 1 {
			t.Errorf("after 0.9 s of 1 s: %d in the heavy slot, want 1", g.HeavyBusy)
		}
		time.Sleep(time.Until(begin.Add(1200 * time.Millisecond)))
		if g := r.limiter.GateState(); g.HeavyBusy != 0 || g.Busy != 0 {
			t.Errorf("after 1.2 s: %+v", g)
		}
		if charged := before - r.row().Level + 1.2; charged < 0.95 || charged > 1.3 { // it earned 1 CPU-s/s meanwhile
			t.Errorf("it was charged %.2f CPU-s, want about 1", charged)
		}
	})
}

// TestStreamsHoldNoSlot checks that an answer that goes on for ever gives its
// slot back when it begins.
func TestStreamsHoldNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
			<-q.Context().Done()
		}), fairly)
		var streams []*http.Response
		for range 20 { // more than there are workers
			res, err := r.client.Do(request(t, nil, "GET /events"))
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, res)
		}
		if g := r.limiter.GateState(); g.Busy != 0 {
			t.Errorf("%d streams have workers", g.Busy)
		}
		for _, res := range streams {
			_ = res.Body.Close()
		}
	})
}

// TestSlowReadersHoldNoSlot has more clients than there are slots take their
// time to read: others are served meanwhile.
func TestSlowReadersHoldNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/large" {
				w.Header().Set("Content-Length", strconv.Itoa(1<<20)) // or it would be flushed now and then, under a lock
				_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
				return
			}
			site(w, q)
		}), fairly)
		r.learn()
		for range 3 {
			r.do(r.client, request(t, nil, "GET /large"))
		}
		var slow []*http.Response
		for range 2 {
			res, err := r.client.Do(request(t, nil, "GET /large"))
			if err != nil {
				t.Fatal(err)
			}
			slow = append(slow, res)
		}
		time.Sleep(time.Second)
		if g := r.limiter.GateState(); g.ExpressBusy != 0 || g.Long == 0 {
			t.Errorf("%d slow readers in express slots, %d beside them", g.ExpressBusy, g.Long)
		}
		for _, res := range slow {
			_ = res.Body.Close()
		}
	})
}

// TestStandingHeaderIsForNobody checks that no client sees what the backend says
// of it, and that what a client says of itself is not believed.
func TestStandingHeaderIsForNobody(t *testing.T) {
	for _, judged := range []bool{false, true} {
		r := start(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/vouched" {
				w.Header().Set(classify.StandingHeader, "6")
			}
		}), fairly)
		if judged {
			standing, err := classify.NewStanding([16]byte{}, classify.StandingConfig{Attested: 4, ClientClass: "slash32", SessionClass: "session"})
			if err != nil {
				t.Fatal(err)
			}
			p := *r.handler.Policy()
			p.Standing = standing
			r.handler.SetPolicy(&p)
		}
		for i, path := range []string{"/", "/vouched", "/"} {
			res, _ := r.do(r.client, request(t, nil, "GET "+path, classify.StandingHeader+": 8"))
			if got, ok := res.Header[classify.StandingHeader]; ok {
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
