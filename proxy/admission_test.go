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

	"github.com/google/go-cmp/cmp"

	"tempomat/classify/newcomer"
	"tempomat/limiter"
	"tempomat/limiter/quota"
)

// counts is limits that say always the same.
type counts quota.Counted

func (c counts) Count(context.Context, time.Time, quota.Request) quota.Counted {
	return quota.Counted(c)
}

// limited puts limits in requests into a rig's policy.
func (r *rig) limited(c counts, shadow bool) {
	p := *r.handler.Policy()
	p.Requests, p.Limits.Shadow, p.Limits.Mode = c, shadow, limiter.Fair
	r.handler.SetPolicy(&p)
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
			if !strings.Contains(body, "You made more requests than the limit login allows. Please try again in 2 s.") {
				t.Error(body)
			}
		}
		if asked != 0 {
			t.Errorf("the backend was asked %d times", asked)
		}
		if res, _ := r.do(r.client, request(t, nil, "GET /healthz")); res.StatusCode != 200 || res.Header.Get("X-RateLimit-Remaining") != "" {
			t.Errorf("exempt: %v %v", res.Status, res.Header)
		}
		r.limited(counts{Blocked: true, Limit: "login"}, true)
		if res, _ := r.do(r.client, request(t, nil, "GET /")); res.StatusCode != 200 {
			t.Errorf("in shadow: %v", res.Status)
		}
		p := *r.handler.Policy()
		p.Limits.Shadow, p.Limits.Mode = false, limiter.Observe
		r.handler.SetPolicy(&p)
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

// TestFieldsOfRequests: what limits tell goes with the response, but not beside
// what the backend tells itself.
func TestFieldsOfRequests(t *testing.T) {
	for name, c := range map[string]struct{ backend, want http.Header }{
		"silent": {nil, http.Header{"X-Ratelimit-Remaining": {"3"}, "X-Ratelimit-Clear": {"1.500"}}},
		"speaks": {http.Header{"X-RATELIMIT-CLEAR": {"9"}}, http.Header{"X-Ratelimit-Clear": {"9"}}},
		"other":  {http.Header{"X-Other": {"1"}}, http.Header{"X-Ratelimit-Remaining": {"3"}, "X-Ratelimit-Clear": {"1.500"}, "X-Other": {"1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					maps.Copy(w.Header(), c.backend)
				}))
				r.limited(counts{Fields: http.Header{"X-RateLimit-Remaining": {"3"}, "X-RateLimit-Clear": {"1.500"}}}, false)
				for _, client := range []*http.Client{r.client, r.h2c} {
					res, _ := r.do(client, request(t, nil, "GET /"))
					got := http.Header{}
					for k, v := range res.Header {
						if strings.HasPrefix(k, "X-") {
							got[k] = v
						}
					}
					if diff := cmp.Diff(c.want, got); diff != "" {
						t.Errorf("%s: -want +got:\n%s", res.Proto, diff)
					}
				}
			})
		})
	}
}

// TestSizeOf: what most requests have is not counted, and many short lines are as much as a
// few long ones.
func TestSizeOf(t *testing.T) {
	if got := sizeOf(20*120, 20, false); got != 0 {
		t.Errorf("an usual header counts %d bytes", got)
	}
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

// TestHeadsOfSlowUploads has a client begin upload after upload behind a long header: it is
// told that it is too much, others are served, and so is it when its uploads are over.
func TestHeadsOfSlowUploads(t *testing.T) {
	for name, long := range map[string]string{
		"one long field": "Cookie: " + strings.Repeat("x", 20<<10) + "\r\n",
		"many short":     strings.Repeat("a: \r\n", 900),
		"spaces":         "a:" + strings.Repeat(" ", 20<<10) + "b\r\n",
		"for the server": "Trailer: " + strings.Repeat("x", 20<<10) + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					_, _ = io.Copy(io.Discard, q.Body)
				}))
				r.handler.BoundHeads(8 << 20)
				var held []io.Closer
				status := 0
				for range 100 {
					c := r.dial()
					send(t, c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n"+long+"\r\nx")
					synctest.Wait()
					if r.records() > 0 {
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
				if got := ask(other); got != http.StatusOK {
					t.Errorf("another client gets %d", got)
				}
				for _, c := range held {
					_ = c.Close()
				}
				synctest.Wait()
				if got := ask(r.client); got != http.StatusOK {
					t.Errorf("when its uploads are over the client gets %d", got)
				}
				if held := r.handler.heads.Held(); held != 0 {
					t.Errorf("%d bytes are held by nobody", held)
				}
			})
		})
	}
}

// records is how many requests are over.
func (r *rig) records() int { return r.access.Len() }

// TestHeadOfAnUpgrade is not counted while the connection is another protocol's.
func TestHeadOfAnUpgrade(t *testing.T) {
	r := start(t, http.HandlerFunc(shout))
	c := r.dial()
	br := bufio.NewReader(c)
	send(t, c, strings.Replace(upgrade, "Host: h\r\n", "Host: h\r\nCookie: "+strings.Repeat("x", 20<<10)+"\r\n", 1))
	if res := answer(t, br, "GET"); res.StatusCode != 101 {
		t.Fatalf("got %d", res.StatusCode)
	}
	if held := r.handler.heads.Held(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}

// TestNewcomerIsSentBackOnce has the backend full of heavy pages. A newcomer's
// browser is sent back once, with a pass, and is served; a client that keeps no
// cookie is sent back once and then served as a stranger; and with room nobody is.
func TestNewcomerIsSentBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(site), fairly)
		n := newcomer.New()
		p := *r.handler.Policy()
		p.Newcomers = n
		r.handler.SetPolicy(&p)
		r.learn()
		page := func(c *http.Client) (res *http.Response, body string) {
			return r.do(c, request(t, nil, "GET /heavy?a%2fb;c",
				"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0", "Accept: text/html"))
		}
		for range 4 {
			page(r.client)
		}
		if c := n.Counts(); c.Redirected != 0 {
			t.Errorf("with room: %+v", c)
		}
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
		if err != nil {
			t.Fatal(err)
		}
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
