package proxy

import (
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/classify"
	"tempomat/limiter"
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
