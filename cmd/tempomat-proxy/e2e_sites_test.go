package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
)

const twoSites = `
cpuCount: 1
newcomers: {redirect: false}
sites:
  crawled: {hosts: [crawled.test, "*.crawled.test"]}
  calm: {hosts: [calm.test], share: 3}
`

// sites is what the gate tells of the sites, by their names.
func (s *sidecarProcess) sites() map[string]limiter.SiteState {
	s.t.Helper()
	var g api.GateReply
	s.ask("/v1/gate", &g)
	all := make(map[string]limiter.SiteState)
	for _, x := range g.Sites {
		all[x.Name] = x
	}
	return all
}

// TestSitesAsApacheHasThem: however a client writes a host, the site is the one whose virtual
// host Apache answers with; and a host that is nobody's is none.
func TestSitesAsApacheHasThem(t *testing.T) {
	t.Parallel()
	backend := startApache(t, "--hosts", "crawled.test,www.crawled.test,calm.test")
	s := startProxy(t, backend.url, twoSites)
	c := newClient(t)
	for _, x := range []struct{ host, vhost, site string }{
		{"crawled.test", "crawled.test", "crawled"}, {"CRAWLED.test:80", "crawled.test", "crawled"}, {"www.crawled.test.", "www.crawled.test", "crawled"},
		{"calm.test", "calm.test", "calm"}, {"calm.test.:8080", "calm.test", "calm"},
		{"invented.test", "default", "others"}, {"calm.test.invented", "default", "others"}, {"[::1]:80", "default", "others"},
	} {
		before := s.sites()[x.site].Ended
		a := fetch(t, c, http.MethodGet, s.url+"/page.php?ms=1", http.Header{"Host": {x.host}}, nil)
		if got := a.Header.Get("X-Served-By"); a.StatusCode != http.StatusOK || got != x.vhost {
			t.Errorf("%s is answered by %q (%s), want %q", x.host, got, a.Status, x.vhost)
		}
		testkit.Eventually(t, "it is counted for "+x.site+": "+x.host, func() bool { return s.sites()[x.site].Ended == before+1 })
	}
}

// crawl has so many clients, each with an address and a cookie of its own, ask a host for a page
// all the time, until the context ends.
func (s *sidecarProcess) crawl(ctx context.Context, host, network string, clients int, path string) (wait func() []time.Duration) {
	var mu sync.Mutex
	var took []time.Duration
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			c := newClient(s.t)
			for ctx.Err() == nil {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
				if err != nil {
					return
				}
				r.Host = host
				r.Header.Set("X-Forwarded-For", fmt.Sprint(network, i+1))
				r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0")
				r.AddCookie(&http.Cookie{Name: "sid", Value: fmt.Sprintf("%032d", i)})
				from := time.Now()
				res, err := c.Do(r)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.StatusCode != http.StatusOK {
					s.t.Errorf("%s: %s", host, res.Status)
					return
				}
				mu.Lock()
				took = append(took, time.Since(from))
				mu.Unlock()
			}
		})
	}
	return func() []time.Duration {
		group.Wait()
		return took
	}
}

// TestSitesOfOneApache: two sites of one Apache that both want all of it have it by their shares;
// and when only one is crawled, as by people of its own, somebody at the other waits a small part
// of what the crawl does.
func TestSitesOfOneApache(t *testing.T) {
	backend := startApache(t, "--hosts", "crawled.test,calm.test", "--cpu", "0")
	s := startProxy(t, backend.url, twoSites)

	ctx, end := context.WithCancel(t.Context())
	a := s.crawl(ctx, "crawled.test", "198.51.100.", 12, "/page.php?ms=10")
	b := s.crawl(ctx, "calm.test", "203.0.113.", 12, "/page.php?ms=10")
	var all map[string]limiter.SiteState
	testkit.Eventually(t, "200 pages are served", func() bool {
		time.Sleep(50 * time.Millisecond) // asked seldom, as asking takes CPU time, too
		all = s.sites()
		return all["crawled"].Ended+all["calm"].Ended >= 200
	})
	end()
	a()
	b()
	// CPU time as it was measured, from the first page on: that is what has to agree. The
	// simulator holds the shares to 3 %.
	ratio := all["calm"].CPU / all["crawled"].CPU
	t.Logf("crawled had %.2f CPU-s, calm %.2f: %.2f times as much", all["crawled"].CPU, all["calm"].CPU, ratio)
	if ratio < 2.2 || ratio > 4 {
		t.Errorf("calm, with three times the share, had %.2f times as much", ratio)
	}

	ctx, end = context.WithCancel(t.Context())
	crawl := s.crawl(ctx, "crawled.test", "192.0.2.", 30, "/page.php?ms=15")
	testkit.Eventually(t, "the crawl waits", func() bool { return s.sites()["crawled"].Queued > 20 })
	person := newClient(t)
	var waited []time.Duration
	for range 12 {
		h := from("203.0.113.200")
		h.Set("Host", "calm.test")
		waited = append(waited, fetch(t, person, http.MethodGet, s.url+"/page.php?ms=15", h, nil).took)
	}
	end()
	took := crawl()
	slices.Sort(waited)
	slices.Sort(took)
	neighbour, typical := waited[len(waited)/2], took[len(took)/2]
	t.Logf("the neighbour's page took %v (at most %v), the crawl's %v", neighbour, waited[len(waited)-1], typical)
	if neighbour > typical/3 {
		t.Errorf("the neighbour's page takes %v beside a crawl whose pages take %v", neighbour, typical)
	}
}
