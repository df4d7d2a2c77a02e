package proxy

import (
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/classify"
	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/telemetry"
)

// TestWhoIsUnderway lists waiting and running requests.
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
		running, n := r.handler.ListRunning(10, nil)
		if n != 1 || len(running) != 1 || running[0].Target != "/heavy" || running[0].Outlook.Waits {
			t.Errorf("%d run: %+v", n, running)
		}
		waiting, n := r.handler.ListWaiting(time.Now(), 10, nil)
		if n != 2 || len(waiting) != 2 {
			t.Fatalf("%d wait: %+v", n, waiting)
		}
		for i, u := range waiting {
			if !u.Outlook.Waits || u.Outlook.Before != i || u.Client.String() != "192.0.2.1" || len(u.Keys) == 0 || u.Host != "site.example" {
				t.Errorf("the %d. that waits: %+v", i+1, u)
			}
		}
		testkit.Same(t, limiter.NoRoom, waiting[0].Outlook.Barrier, "the first is kept by barrier")
		one, n := r.handler.ListWaiting(time.Now(), 1, func(u *Underway) bool { return u.Shape != "" })
		if n != 2 || len(one) != 1 || one[0].Arrived.Sub(begin) != 10*time.Millisecond {
			t.Errorf("the first of %d: %+v", n, one)
		}
		all.Wait()
		if waiting, n := r.handler.ListWaiting(time.Now(), 10, nil); n != 0 || len(waiting) != 0 {
			t.Errorf("in the end %d wait", n)
		}
	})
}

// TestLongTargetsAreCut: the size of the texts that a client can show to others is limited.
func TestLongTargetsAreCut(t *testing.T) {
	u := Underway{Target: strings.Repeat("x", 600), Host: strings.Repeat("h", 600), Method: "GET"}
	if u.own(); len(u.Target) != mostShown || len(u.Host) != mostShown || u.Method != "GET" {
		t.Errorf("%d bytes of a target, %d of a host", len(u.Target), len(u.Host))
	}
}

// TestBusyByItsOwnDoing: the answer to a client that is rejected because its own requests used more than its
// share says so. The answer to a stranger that waits behind it doesn't.
func TestBusyByItsOwnDoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(site), fairly, func(s *setup) {
			s.limits.MaxHold = 1500 * time.Millisecond
			s.classify.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
			s.classify.AddressHeader = classify.XForwardedFor
		})
		r.learn()
		time.Sleep(31 * time.Second)
		r.learn() // makes the client known
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
		const says = "your other requests have already had"
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

// TestRequestID: tempomat's own answers have the same id in the page, the header and the log; the backend's
// answers stay as they are.
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
		inBubble(t, name, func(t *testing.T) {
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
	}
}

// recorded keeps copies of the records.
type recorded struct {
	mu      sync.Mutex
	entries []telemetry.Entry
}

func (r *recorded) Note(now time.Time, rec *telemetry.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e telemetry.Entry
	e.Set(now, rec)
	r.entries = append(r.entries, e)
}

// ended waits until all requests have ended, and returns their records. The test fails if there aren't n of them.
func (r *recorded) ended(rig *rig, n int) []telemetry.Entry {
	rig.t.Helper()
	rig.busy.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.entries) != n {
		rig.t.Fatalf("%d are on record, want %d", len(r.entries), n)
	}
	return r.entries
}

// TestInside: the backend takes 3 s for each of two requests: one runs and one waits. The client of the first
// disconnects after 2 s. The running request is reported as its cost grows, and its record has the sum that
// was reported.
func TestInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(work3s), fairly)
		const agent = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0"
		for range 3 {
			r.do(r.client, request(t, nil, "GET /header?a=0", agent))
		}
		records := &recorded{}
		r.handler.records = records
		testkit.Same(t, telemetry.Waiting{}, r.handler.WaitingByGroup(time.Now()), "nobody waits")
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
			testkit.Same(t, 0, len(r.handler.SoFar(time.Now(), nil)), "told twice")
			time.Sleep(time.Second - 200*time.Millisecond*time.Duration(i))
		}
		for _, e := range r.handler.SoFar(time.Now(), nil) { // its client has disconnected
			if told += e.Cost; e.Orphan {
				wasted += e.Cost
			}
		}
		all.Wait()
		time.Sleep(time.Second)
		entries := records.ended(r, 2)
		if e := entries[0]; e.Cost != 3*time.Second || e.Told != told || told != 2800*time.Millisecond || !e.Orphan || e.ToldWasted != wasted || wasted != 800*time.Millisecond {
			t.Errorf("on record: cost %v, told %v of %v, orphan %v, wasted %v of %v", e.Cost, e.Told, told, e.Orphan, e.ToldWasted, wasted)
		}
		if e := entries[1]; e.Told != 0 || e.Delay < 1900*time.Millisecond {
			t.Errorf("on record: told %v, delayed %v", e.Told, e.Delay)
		}
	})
}

// TestWaitedIsAtTheGate: a client sends its body for half a second, waits, and is rejected. Its wait, in the
// queue and in the record, begins when the body is complete.
func TestWaitedIsAtTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(work3s), func(s *setup) {
			fairly(s)
			s.limits.MaxHold = 1500 * time.Millisecond
		})
		for range 3 {
			r.do(r.client, request(t, nil, "POST /header"))
		}
		records := &recorded{}
		r.handler.records = records
		var all sync.WaitGroup
		all.Go(func() { r.do(r.client, request(t, nil, "POST /header")) })
		time.Sleep(time.Millisecond)
		body, sends := io.Pipe()
		all.Go(func() { r.do(newClient(r.front, false), request(t, body, "POST /header")) })
		time.Sleep(500 * time.Millisecond)
		_ = sends.Close()
		there := time.Now()
		time.Sleep(time.Second)
		if rows, _ := r.handler.ListWaiting(time.Now(), 10, nil); len(rows) != 1 || !rows[0].Arrived.Equal(there) {
			t.Errorf("waits since %v: %+v", there, rows)
		}
		all.Wait()
		if e := records.ended(r, 2)[0]; e.Outcome != telemetry.Refused || e.Waited != 1500*time.Millisecond || e.Took != 2*time.Second {
			t.Errorf("%v, waited %v of %v", e.Outcome, e.Waited, e.Took)
		}
	})
}

// TestRecordFields compares whole lines.
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
		{"exempt", exempt("/*"), nil, map[string]any{"exempt": true, "cost_ms": 1000.0}},
	} {
		inBubble(t, tc.name, func(t *testing.T) {
			r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				sleeper(w, q)
				_, _ = io.WriteString(w, "hello")
			}), tc.change)
			r.do(r.client, request(t, nil, "GET /a%20b"))
			if tc.name == "refused" || tc.name == "shadow" { // the second request is the one that is refused or delayed
				r.do(r.client, request(t, nil, "GET /a%20b"))
			}
			lines := r.lines()
			line := lines[len(lines)-1]
			names := slices.Concat(common, tc.more)
			if line["exempt"] == true {
				names = []string{"bytes", "client", "cost_ms", "exempt", "group", "host", "method", "outcome", "path", "shape", "status", "took_ms"}
			}
			slices.Sort(names)
			testkit.Same(t, names, slices.Sorted(maps.Keys(line)), "fields")
			for name, want := range tc.want {
				testkit.Same(t, want, line[name], "%s", name)
			}
		})
	}
}
