//go:build world

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestWorldBrowserIsRedirected: real browsers visit a full site for the first time. Their users see the page
// that they requested, at its URL.
func TestWorldBrowserIsRedirected(t *testing.T) {
	t.Parallel()
	for name, start := range browsers {
		t.Run(name, func(t *testing.T) {
			g, f := startGuide(t), startFullSite(t, "")
			f.script = g.script()
			start(t, g.url+"/start")
			landsOnce(t, g, f, "/w/page?title=a%2Fb;c&d=%C3%A4", "#part", 1)
			landsOnce(t, g, f, "/second", "", 0)
			if n, want := f.stats().Counters["requests"], uint64(2*2+1+2); n != want { // including the expensive requests and those of outwait
				t.Errorf("%d requests in all, want %d", n, want)
			}
		})
	}
}

// outwait waits until a newcomer is redirected. Every earlier request that must be redirected has been redirected by
// then.
func (f *fullSite) outwait(t *testing.T, client string) {
	t.Helper()
	if got := got(open(t, newClient(t), http.MethodGet, f.url+"/", clicked(client), nil)); got != "302 ./" {
		t.Fatalf("%s, which is to be redirected, got %s", client, got)
	}
}

// landsOnce opens a page while the site is full, and checks that the browser is redirected only as often as expected.
func landsOnce(t *testing.T, g *guide, f *fullSite, target, fragment string, redirects uint64) {
	t.Helper()
	empty, before := f.fill(t), f.redirected()
	defer empty()
	g.open(t, f.url+target+fragment)
	testkit.Eventually(t, "it waits, redirected as is right", func() bool { return f.stats().Held == 1 && f.redirected() == before+redirects })
	f.outwait(t, fmt.Sprint("203.0.113.", 1+redirects))
	empty()
	testkit.Eventually(t, "the page is shown at its URL", func() bool { return g.shows(f.url+target+fragment, target) })
	if saw := f.saw(); !slices.Equal(saw, []string{"GET " + target}) {
		t.Errorf("the site saw %q", saw)
	}
	testkit.Same(t, redirects, f.redirected()-before-1, "%s: redirects", target)
}

// pictures starts a site with ten workers. Its page /N contains N pictures, each of which holds a worker for a while.
// When all have loaded or failed, the page's title contains both numbers.
func pictures(t *testing.T, g *guide) string {
	workers := make(chan struct{}, 10)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		workers <- struct{}{}
		defer func() { <-workers }()
		w.Header().Set("Cache-Control", "no-store")
		n, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil {
			time.Sleep(5 * time.Millisecond)
			w.Header().Set("Content-Type", "image/gif") // the browser would have to make a document for each SVG
			fmt.Fprint(w, "GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff\x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02\x44\x01\x00\x3b")
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "5f4dcc3b5aa765d61d8327deb882cf99", Path: "/"})
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!DOCTYPE html><title>it loads</title><script>let good = 0, bad = 0
function tell() { if (good + bad == `, n, `) { document.title = good + " good, " + bad + " broken"; `, g.script(), ` } }</script>`)
		for i := range n {
			fmt.Fprintf(w, `<img src="/%d-%d.gif" onload="good++; tell()" onerror="bad++; tell()">`, n, i)
		}
	}))
	t.Cleanup(backend.Close)
	return backend.URL
}

// TestWorldPagesOfManyPictures: in every mode, a browser gets all pictures of a page, however many there are, both at
// its first visit and when it returns.
func TestWorldPagesOfManyPictures(t *testing.T) {
	for _, mode := range []string{"fair", "observe", "cap", "cooperative"} {
		for protocol, listen := range map[string]string{"HTTP/2": overTLS, "HTTP/1.1": "listen: 127.0.0.1:0\n#%s\n"} {
			t.Run(mode+" "+protocol, func(t *testing.T) {
				g := startGuide(t)
				s := startSecure(t, pictures(t, g), listen+"trustedProxies: 192.0.2.1\nthrottle: {mode: "+mode+"}\nlog: {access: off}\n")
				url := s.url
				if protocol == "HTTP/2" {
					url = "https://" + s.site
				}
				startChromium(t, g.url+"/start", "--ignore-certificate-errors")
				sizes := []int{60, 150, 400}
				if mode != "fair" {
					sizes = sizes[1:2]
				}
				for _, visit := range []string{"first", "second"} {
					for _, n := range sizes {
						page := fmt.Sprintf("%s/%d?%s", url, n, visit)
						g.open(t, page)
						testkit.Eventually(t, fmt.Sprintf("all %d pictures of the %s visit, none broken", n, visit), func() bool {
							return g.shows(page, fmt.Sprintf("%d good, 0 broken", n))
						})
					}
				}
			})
		}
	}
}
