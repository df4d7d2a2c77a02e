package proxy

import (
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"tempomat/classify"
	"tempomat/limiter"
	"tempomat/proxy/telemetry"
)

// TestWhoIsUnderway looks at requests that wait and run.
func TestWhoIsUnderway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(site), fairly)
		r.learn()
		var all sync.WaitGroup
		begin := time.Now()
		for range 3 {
			all.Go(func() { r.do(r.client, request(t, nil, "GET /heavy")) })
			synctest.Wait()
			time.Sleep(10 * time.Millisecond)
		}
		running, n := r.handler.WhoRuns(10, nil)
		if n != 1 || len(running) != 1 || running[0].Target != "/heavy" || running[0].Outlook.Waits {
			t.Errorf("%d run: %+v", n, running)
		}
		waiting, n := r.handler.WhoWaits(time.Now(), 10, nil)
		if n != 2 || len(waiting) != 2 {
			t.Fatalf("%d wait: %+v", n, waiting)
		}
		for i, u := range waiting {
			if !u.Outlook.Waits || u.Outlook.Before != i || u.Client.String() != "192.0.2.1" || len(u.Keys) == 0 || u.Host != "site.example" {
				t.Errorf("the %d. that waits: %+v", i+1, u)
			}
		}
		if got := waiting[0].Outlook.Barrier; got != limiter.NoRoom {
			t.Errorf("the first is kept by barrier %d", got)
		}
		one, n := r.handler.WhoWaits(time.Now(), 1, func(u *Underway) bool { return u.Shape != "" })
		if n != 2 || len(one) != 1 || one[0].Arrived.Sub(begin) != 10*time.Millisecond {
			t.Errorf("the first of %d: %+v", n, one)
		}
		all.Wait()
		if waiting, n := r.handler.WhoWaits(time.Now(), 10, nil); n != 0 || len(waiting) != 0 {
			t.Errorf("in the end %d wait", n)
		}
	})
}

// TestLongTargetsAreCut bounds what a client makes others see.
func TestLongTargetsAreCut(t *testing.T) {
	u := Underway{Target: strings.Repeat("x", 600), Host: strings.Repeat("h", 600), Method: "GET"}
	if u.own(); len(u.Target) != mostShown || len(u.Host) != mostShown || u.Method != "GET" {
		t.Errorf("%d bytes of a target, %d of a host", len(u.Target), len(u.Host))
	}
}

// TestLookingDisturbsNobody has somebody look all the time while requests come and go.
func TestLookingDisturbsNobody(t *testing.T) {
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }), fairly)
	done := make(chan struct{})
	var looks, asks sync.WaitGroup
	looks.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				r.handler.WhoWaits(time.Now(), 10, nil)
				r.handler.WhoRuns(10, nil)
			}
		}
	})
	for range 8 {
		asks.Go(func() {
			for range 50 {
				if res, _ := r.do(r.client, request(t, nil, "GET /")); res.StatusCode != 200 {
					t.Errorf("status %d", res.StatusCode)
				}
			}
		})
	}
	asks.Wait()
	close(done)
	looks.Wait()
}

// TestBusyByItsOwnDoing: who is refused, as its own requests have had more than its share,
// is told so; a stranger behind it is not.
func TestBusyByItsOwnDoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(site), fairly, func(s *setup) {
			s.limits.MaxHold = 1500 * time.Millisecond
			s.classify.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
			s.classify.AddressHeader = classify.XForwardedFor
		})
		r.learn()
		time.Sleep(31 * time.Second)
		r.learn() // and so it is known
		ask := func(header ...string) <-chan string {
			said := make(chan string, 1)
			go func() {
				_, body := r.do(r.client, request(t, nil, "GET /heavy", header...))
				said <- body
			}()
			synctest.Wait()
			return said
		}
		own := []<-chan string{ask(), ask(), ask(), ask()}
		stranger := ask("X-Forwarded-For: 198.51.100.7")
		const says = "other requests of yours have, or had"
		if body := <-own[3]; !strings.Contains(body, says) {
			t.Errorf("the crawler's last one: %q", body)
		}
		if body := <-stranger; strings.Contains(body, says) {
			t.Errorf("a stranger: %q", body)
		}
		for _, x := range own[:3] {
			<-x
		}
	})
}

// TestRequestID: what tempomat answers itself has an id, the same in the page, the
// header and the log; what the backend answers is as the backend sent it.
func TestRequestID(t *testing.T) {
	for name, c := range map[string]struct {
		given   []string
		trusted bool
		want    string // empty: one of tempomat's own
	}{
		"own":                {nil, true, ""},
		"of a trusted proxy": {[]string{"X-Request-Id: 7b3e-42/a"}, true, "7b3e-42/a"},
		"the other name":     {[]string{"Request-Id: 00-abc"}, true, "00-abc"},
		"of anybody":         {[]string{"X-Request-Id: 7b3e"}, false, ""},
		"unsound":            {[]string{"X-Request-Id: <b>hello</b>"}, true, ""},
		"an option":          {[]string{"X-Request-Id: --socket=/tmp/evil"}, true, ""},
		"too long":           {[]string{"X-Request-Id: " + strings.Repeat("a", 65)}, true, ""},
		"two":                {[]string{"X-Request-Id: a", "X-Request-Id: b"}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				change := func(s *setup) {
					indebted(limiter.Cap)(s)
					if c.trusted {
						s.classify.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
					}
				}
				r := startVirtual(t, sleeper, change)
				res, _ := r.do(r.client, request(t, nil, "GET /", c.given...))
				if id, ok := res.Header[requestHeader]; ok {
					t.Errorf("the backend's answer has the id %q", id)
				}
				res, body := r.do(r.client, request(t, nil, "GET /", c.given...))
				id := res.Header.Get(requestHeader)
				if !strings.Contains(body, "(request "+id+")") || r.lines()[1]["request"] != id {
					t.Errorf("header %q, page %q, log %v", id, body, r.lines()[1]["request"])
				}
				if c.want != "" && id != c.want || c.want == "" && (len(id) != 8 || strings.Trim(id, "0123456789abcdef") != "") {
					t.Errorf("the id is %q, want %q", id, c.want)
				}
			})
		})
	}
}

// recorded keeps copies of what was recorded.
type recorded struct {
	mu      sync.Mutex
	entries []telemetry.Entry
}

func (r *recorded) Note(now time.Time, rec *telemetry.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e telemetry.Entry
	e.Set(now, rec, 1)
	r.entries = append(r.entries, e)
}

// TestInside has two requests come whose backend takes 3 s for each: one runs and one
// waits. The client of the first leaves after 2 s. What runs is told as it costs, and
// what was told is on its record.
func TestInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(work3s), fairly)
		const agent = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0"
		for range 3 {
			r.do(r.client, request(t, nil, "GET /header?a=0", agent))
		}
		records := &recorded{}
		r.handler.records = records
		if w := r.handler.WaitingByGroup(time.Now()); w != (telemetry.Waiting{}) {
			t.Errorf("nobody waits, and it says %+v", w)
		}
		var all sync.WaitGroup
		all.Go(func() { leaves(t, r.client, request(t, nil, "GET /header?a=1", agent), 2100*time.Millisecond) })
		time.Sleep(time.Millisecond)
		all.Go(func() { r.do(newClient(r.front, false), request(t, nil, "GET /header?a=2", agent)) })
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		w := r.handler.WaitingByGroup(time.Now())
		if w.Count != [telemetry.Groups]int{telemetry.Stranger: 1} || w.Longest[telemetry.Stranger] != 999*time.Millisecond {
			t.Errorf("one waits, and it says %+v", w)
		}
		var told, wasted time.Duration
		for i := range 2 {
			running := r.handler.SoFar(time.Now(), nil)
			if len(running) != 1 { // their fields are long
				t.Fatalf("after %d s: %d run", i+1, len(running))
			}
			if running[0].Target() != "/header?a=1" || running[0].Cost != time.Second || running[0].Shape != "/header?a" {
				t.Errorf("after %d s: %s, %s, %v", i+1, running[0].Target(), running[0].Shape, running[0].Cost)
			}
			told += running[0].Cost
			if again := r.handler.SoFar(time.Now(), nil); len(again) != 0 {
				t.Errorf("%d are told twice", len(again))
			}
			time.Sleep(time.Second - 200*time.Millisecond*time.Duration(i))
		}
		for _, e := range r.handler.SoFar(time.Now(), nil) { // its client has left
			if told += e.Cost; e.Orphan {
				wasted += e.Cost
			}
		}
		all.Wait()
		time.Sleep(time.Second)
		r.busy.Wait()
		records.mu.Lock()
		defer records.mu.Unlock()
		if len(records.entries) != 2 {
			t.Fatalf("%d are on record", len(records.entries))
		}
		if e := records.entries[0]; e.Cost != 3*time.Second || e.Told != told || told != 2800*time.Millisecond || !e.Orphan || e.ToldWasted != wasted || wasted != 800*time.Millisecond {
			t.Errorf("on record: cost %v, told %v of %v, orphan %v, wasted %v of %v", e.Cost, e.Told, told, e.Orphan, e.ToldWasted, wasted)
		}
		if e := records.entries[1]; e.Told != 0 || e.Delay < 1900*time.Millisecond {
			t.Errorf("on record: told %v, delayed %v", e.Told, e.Delay)
		}
	})
}

// TestWaitedIsAtTheGate: a client that sends its body for half a second, waits, and is
// refused has waited from when its body was there, in the queue and on record.
func TestWaitedIsAtTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(work3s), func(s *setup) {
			fairly(s)
			s.limits.MaxHold = 1500 * time.Millisecond
		})
		for range 3 {
			r.do(r.client, request(t, nil, "GET /header"))
		}
		records := &recorded{}
		r.handler.records = records
		var all sync.WaitGroup
		all.Go(func() { r.do(r.client, request(t, nil, "GET /header")) })
		time.Sleep(time.Millisecond)
		body, sends := io.Pipe()
		all.Go(func() { r.do(newClient(r.front, false), request(t, body, "POST /header")) })
		time.Sleep(500 * time.Millisecond)
		_ = sends.Close()
		there := time.Now()
		time.Sleep(time.Second)
		if rows, _ := r.handler.WhoWaits(time.Now(), 10, nil); len(rows) != 1 || !rows[0].Arrived.Equal(there) {
			t.Errorf("waits since %v: %+v", there, rows)
		}
		all.Wait()
		r.busy.Wait()
		records.mu.Lock()
		defer records.mu.Unlock()
		if len(records.entries) != 2 {
			t.Fatalf("%d are on record", len(records.entries))
		}
		if e := records.entries[0]; e.Outcome != telemetry.Refused || e.Waited != 1500*time.Millisecond || e.Took != 2*time.Second {
			t.Errorf("%v, waited %v of %v", e.Outcome, e.Waited, e.Took)
		}
	})
}

func nopLog() *zap.Logger { return zap.NewNop() }

// TestRecordFields looks at whole lines.
func TestRecordFields(t *testing.T) {
	common := []string{"bytes", "classes", "client", "cost_ms", "group", "guess_ms", "host", "method", "outcome", "path", "shape", "status", "took_ms", "verdict", "wait_ms"}
	for _, tc := range []struct {
		name   string
		change func(*setup)
		more   []string
		want   map[string]any
	}{
		{"answered", mode(limiter.Observe), []string{"known", "price"}, map[string]any{
			"status": int64(200), "bytes": int64(5), "method": "GET", "host": "site.example", "path": "/a b", "shape": "/a-b", "group": "robots", "client": "192.0.2.1",
			"outcome": "answered", "verdict": "go", "took_ms": 1000.0, "cost_ms": 1000.0, "wait_ms": 0.0,
		}},
		{"waited", heldFor, []string{"request"}, map[string]any{"status": int64(200), "took_ms": 1000.0 + 9000, "cost_ms": 1000.0, "wait_ms": 9000.0}},
		{"refused", indebted(limiter.Cap), []string{"class", "key", "reason", "request"}, map[string]any{
			"status": int64(429), "outcome": "refused", "verdict": "refuse", "reason": "debt", "class": "slash32", "key": "192.0.2.1", "cost_ms": 0.0,
		}},
		{"shadow", func(s *setup) { indebted(limiter.Cap)(s); s.limits.Shadow = true },
			[]string{"class", "key", "reason", "shadow", "would_wait_ms"}, map[string]any{"status": int64(200), "verdict": "refuse", "wait_ms": 0.0, "shadow": true}},
		{"exempt", exempt("/*"), []string{"exempt", "-classes", "-guess_ms", "-verdict", "-wait_ms"}, map[string]any{"exempt": true, "cost_ms": 1000.0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					sleeper(w, q)
					_, _ = io.WriteString(w, "hello")
				}), tc.change)
				r.do(r.client, request(t, nil, "GET /a%20b"))
				if tc.name == "refused" || tc.name == "shadow" { // it is the second one that is
					r.do(r.client, request(t, nil, "GET /a%20b"))
				}
				lines := r.lines()
				line := lines[len(lines)-1]
				names := slices.Clone(common)
				for _, m := range tc.more {
					if gone, ok := strings.CutPrefix(m, "-"); ok {
						names = slices.DeleteFunc(names, func(n string) bool { return n == gone })
					} else {
						names = append(names, m)
					}
				}
				slices.Sort(names)
				var got []string
				for name := range line {
					got = append(got, name)
				}
				slices.Sort(got)
				if diff := cmp.Diff(names, got); diff != "" {
					t.Errorf("fields (-want +got):\n%s", diff)
				}
				for name, want := range tc.want {
					if line[name] != want {
						t.Errorf("%s is %v, want %v", name, line[name], want)
					}
				}
			})
		})
	}
}

// TestWaiting: who waits is told by group, and for how long; who is at the backend is not.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(site), fairly)
		r.learn()
		begin := time.Now()
		var all sync.WaitGroup
		for i, agent := range []string{"", "", "", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"} {
			q := request(t, nil, "GET /heavy")
			if q.Header.Set("X-Forwarded-For", "198.51.100.1"); agent != "" {
				q.Header.Set("User-Agent", agent)
			}
			all.Go(func() { r.do(r.client, q) })
			if i == 0 {
				synctest.Wait() // it is at the backend
			}
		}
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		var want telemetry.Waiting
		want.Count[telemetry.Robot], want.Longest[telemetry.Robot] = 2, time.Since(begin)
		want.Count[telemetry.Stranger], want.Longest[telemetry.Stranger] = 1, time.Since(begin)
		if diff := cmp.Diff(want, r.handler.WaitingByGroup(time.Now())); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		all.Wait()
		if diff := cmp.Diff(telemetry.Waiting{}, r.handler.WaitingByGroup(time.Now())); diff != "" {
			t.Errorf("all were answered (-want +got):\n%s", diff)
		}
	})
}
