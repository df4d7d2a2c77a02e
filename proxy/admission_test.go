package proxy

import (
	"bufio"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/classify/newcomer"
	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/limiter/quota"
)

// counts are limits that always give the same result.
type counts quota.Counted

func (c counts) Count(context.Context, time.Time, quota.Request) quota.Counted {
	return quota.Counted(c)
}

// limited adds request limits to a rig's policy.
func (r *rig) limited(c counts, shadow bool) {
	r.change(func(p *Policy) { p.Requests, p.Limits.Shadow, p.Limits.Mode = c, shadow, limiter.Fair })
}

func TestRefusedForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r := startVirtual(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }), exempt("/healthz"))
		r.limited(counts{
			Blocked: true, Limit: "login", Wait: 1500 * time.Millisecond,
			Fields: http.Header{"X-RateLimit-Remaining": {"0"}},
		}, false)
		for accept, json := range accepts {
			res, body := r.do(r.client, request(t, nil, "GET /", "Accept: "+accept))
			checkProblem(t, res, body, 429, json)
			if got := res.Header.Get("Retry-After"); got != "2" || res.Header.Get("X-RateLimit-Remaining") != "0" {
				t.Errorf("%v", res.Header)
			}
			if !strings.Contains(body, "than it allows in so short a time. Please try again in 2 seconds") {
				t.Error(body)
			}
		}
		testkit.Same(t, 0, asked, "the backend was asked")
		if res, _ := r.do(r.client, request(t, nil, "GET /healthz")); res.StatusCode != 200 || res.Header.Get("X-RateLimit-Remaining") != "" {
			t.Errorf("exempt: %v %v", res.Status, res.Header)
		}
		r.limited(counts{Blocked: true, Limit: "login"}, true)
		if res, _ := r.do(r.client, request(t, nil, "GET /")); res.StatusCode != 200 {
			t.Errorf("in shadow: %v", res.Status)
		}
		r.change(func(p *Policy) { p.Limits.Shadow, p.Limits.Mode = false, limiter.Observe })
		if res, _ := r.do(r.client, request(t, nil, "GET /")); res.StatusCode != 200 {
			t.Errorf("observed: %v", res.Status)
		}
		for i, line := range r.lines() {
			if refused := i < len(accepts); refused != (line["outcome"] == "refused") || refused != (line["verdict"] == "refuse") || refused && line["limit"] != "login" {
				t.Errorf("access log: %v", line)
			}
		}
	})
}

// TestFieldsOfRequests: a response shows the state of the limits, unless the backend shows such fields
// itself.
func TestFieldsOfRequests(t *testing.T) {
	for name, c := range map[string]struct{ backend, want http.Header }{
		"silent": {nil, http.Header{"X-Ratelimit-Remaining": {"3"}, "X-Ratelimit-Clear": {"1.500"}}},
		"speaks": {http.Header{"X-RATELIMIT-CLEAR": {"9"}}, http.Header{"X-Ratelimit-Clear": {"9"}}},
		"other":  {http.Header{"X-Other": {"1"}}, http.Header{"X-Ratelimit-Remaining": {"3"}, "X-Ratelimit-Clear": {"1.500"}, "X-Other": {"1"}}},
	} {
		inBubble(t, name, func(t *testing.T) {
			r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				maps.Copy(w.Header(), c.backend)
			}))
			r.limited(counts{Fields: http.Header{"X-RateLimit-Remaining": {"3"}, "X-RateLimit-Clear": {"1.500"}}}, false)
			for _, client := range []*http.Client{r.client, r.h2c} {
				res, _ := r.do(client, request(t, nil, "GET /"))
				maps.DeleteFunc(res.Header, func(name string, _ []string) bool { return !strings.HasPrefix(name, "X-") })
				testkit.Same(t, c.want, res.Header, "%s", res.Proto)
			}
		})
	}
}

// TestSizeOf: headers of usual size are not counted, and many short lines count as much as a few long ones.
func TestSizeOf(t *testing.T) {
	testkit.Same(t, 0, sizeOf(20*120, 20, false), "bytes that a usual header counts")
	if got := sizeOf(usualHead, 1, false); got < usualHead {
		t.Errorf("a long cookie counts %d bytes", got)
	}
	if got := sizeOf(0, 1000, false); got < 1000*fieldSize {
		t.Errorf("a thousand lines count %d bytes", got)
	}
	if got := sizeOf(0, 0, true); got < streamSize {
		t.Errorf("a stream that uploads counts %d bytes", got)
	}
}

// TestHeadsOfSlowUploads: a client begins upload after upload with long headers. It is refused, others are
// served, and it is served again when its uploads are over.
func TestHeadsOfSlowUploads(t *testing.T) {
	for name, long := range map[string]string{
		"one long field": "Cookie: " + strings.Repeat("x", 20<<10) + "\r\n",
		"many short":     strings.Repeat("a: \r\n", 900),
		"spaces":         "a:" + strings.Repeat(" ", 20<<10) + "b\r\n",
		"for the server": "Trailer: " + strings.Repeat("x", 20<<10) + "\r\n",
	} {
		inBubble(t, name, func(t *testing.T) {
			r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				_, _ = io.Copy(io.Discard, q.Body)
			}))
			r.handler.BoundHeads(2 << 20)
			var held []io.Closer
			status := 0
			for range 100 {
				c := r.dial()
				send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n"+long+"\r\nx")
				synctest.Wait()
				if r.access.Len() > 0 { // it is refused
					res := answer(t, bufio.NewReader(c), "POST")
					status = res.StatusCode
					_ = c.Close()
					break
				}
				held = append(held, c)
			}
			if status != http.StatusTooManyRequests || len(held) < 2 {
				t.Errorf("after %d uploads the next one gets %d", len(held), status)
			}
			if line := r.access.All()[0].ContextMap(); line["verdict"] != "refuse" || line["reason"] != "client full" || line["key"] != "192.0.2.1" {
				t.Errorf("access log: %v", line)
			}
			other := newClient(r.front.from("192.0.2.99"), false)
			defer other.CloseIdleConnections()
			ask := func(c *http.Client) int {
				res, _ := r.do(c, request(t, nil, "POST /", "Cookie: "+strings.Repeat("x", 20<<10)))
				return res.StatusCode
			}
			testkit.Same(t, http.StatusOK, ask(other), "another client gets")
			for _, c := range held {
				_ = c.Close()
			}
			synctest.Wait()
			testkit.Same(t, http.StatusOK, ask(r.client), "when its uploads are over the client gets")
		})
	}
}

// TestNewcomerIsSentBackOnce: while the backend is full of heavy pages, a newcomer's browser is redirected
// once, with a pass, and then served. A client that keeps no cookies is redirected once and then served as a
// stranger. While there is room, no client is redirected.
func TestNewcomerIsSentBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(site), fairly)
		n := newcomer.New()
		r.change(func(p *Policy) { p.Newcomers = n })
		r.learn()
		page := func(c *http.Client) (res *http.Response, body string) {
			return r.do(c, request(t, nil, "GET /heavy?a%2fb;c",
				"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0", "Accept: text/html"))
		}
		for range 4 {
			page(r.client)
		}
		testkit.Same(t, 0, n.Counts().Redirected, "redirects while there is room")
		busy := func(then func()) {
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() { r.do(r.client, request(t, nil, "GET /heavy")) })
			}
			synctest.Wait()
			then()
			all.Wait()
		}
		jar, err := cookiejar.New(nil)
		testkit.Must(t, err)
		hops := 0
		browser := *r.client
		browser.Jar, browser.CheckRedirect = jar, func(*http.Request, []*http.Request) error { hops++; return nil }
		busy(func() {
			if res, _ := page(&browser); res.StatusCode != http.StatusOK || hops != 1 {
				t.Errorf("a browser got %s after %d redirects, want 200 after one", res.Status, hops)
			}
		})
		if c := n.Counts(); c.Redirected != 1 || c.CameBack != 1 {
			t.Errorf("%+v, want one redirected who came back", c)
		}
		browser.Jar, hops = nil, 0
		busy(func() {
			if res, _ := page(&browser); res.StatusCode != http.StatusOK || hops != 0 {
				t.Errorf("who keeps no cookie got %s after %d redirects, want 200 at the address's own turn", res.Status, hops)
			}
		})
		r.checkIdle()
	})
}
