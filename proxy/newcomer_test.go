package proxy

import (
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/classify/newcomer"
	"tempomat/internal/testkit"
)

// TestNewcomerIsSentBackOnce has the backend full of heavy pages. A newcomer's
// browser is sent back once, with a pass, and is served; a client that keeps no
// cookie is sent back once and then served as a stranger; and with room nobody is.
func TestNewcomerIsSentBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(site), fairly)
		n := newcomer.New(time.Now())
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

// TestNobodyIsSentBackWithRoom has a light backend answer many newcomers, each of
// an address of its own, with half of the CPUs to spare.
func TestNobodyIsSentBackWithRoom(t *testing.T) {
	requests := 100_000
	if testkit.RaceDetector {
		requests = 2_000
	}
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(site), func(s *setup) {
			fairly(s)
			s.limits.Gate.CPUs, s.limits.Gate.Heavy = 8, 8
			s.classify.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}
		})
		n := newcomer.New(time.Now())
		p := *r.handler.Policy()
		p.Newcomers = n
		r.handler.SetPolicy(&p)
		r.learn()
		var all sync.WaitGroup
		for worker := range 4 {
			all.Go(func() {
				for i := worker; i < requests; i += 4 {
					from := netip.AddrFrom4([4]byte{100, byte(i >> 16), byte(i >> 8), byte(i)})
					q := request(t, nil, "GET /light", "X-Forwarded-For: "+from.String(), "Accept: text/html",
						"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0")
					if res, _ := r.do(r.client, q); res.StatusCode != http.StatusOK {
						t.Errorf("request %d got %s", i, res.Status)
						return
					}
				}
			})
		}
		all.Wait()
		if c := n.Counts(); c != (newcomer.Counts{}) {
			t.Errorf("with room: %+v", c)
		}
		r.checkIdle()
	})
}
