//go:build world

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	testkit.Same(t, []string{"GET " + target}, f.saw(), "the site saw")
	testkit.Same(t, redirects, f.redirected()-before-1, "%s: redirects", target)
}

// pictures starts a site with ten workers. Its page /N contains N pictures, each of which holds a worker for a while.
// When all have loaded or failed, the page's title contains both numbers.
func pictures(t *testing.T, g *guide) string {
	workers := make(chan struct{}, 10)
	return startBackend(t, func(w http.ResponseWriter, r *http.Request) {
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
	})
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

// browsers open a page, each with a new profile and without a proxy.
var browsers = map[string]func(t *testing.T, page string, words ...string){"Chromium": startChromium, "Firefox": startFirefox}

// startChromium hides that it is headless, because tempomat treats headless browsers as robots.
func startChromium(t *testing.T, page string, words ...string) {
	c := testkit.StartChromium(t, append(words,
		"--user-agent=Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36")...)
	c.Do("", "Target.createTarget", map[string]any{"url": page}, nil)
}

func startFirefox(t *testing.T, page string, words ...string) {
	path, home := testkit.Program(t, "firefox-esr", "firefox"), tempDir(t)
	profile := filepath.Join(home, "profile")
	testkit.Must(t, os.Mkdir(profile, 0o700))
	testkit.ReplaceFile(t, filepath.Join(profile, "user.js"), "user_pref('network.proxy.type', 0);\nuser_pref('browser.shell.checkDefaultBrowser', false);\nuser_pref('datareporting.policy.dataSubmissionEnabled', false);\n")
	testkit.Start(t, []string{"HOME=" + home, "MOZ_DISABLE_CONTENT_SANDBOX=1"}, path, append(words, "--headless", "--no-remote", "--profile", profile, page)...)
}

// guide is a server next to the site. It receives reports from the pages that a browser shows, beginning with the
// guide's own page, and makes the browser visit one page after another.
type guide struct {
	url string

	mu    sync.Mutex // guards the fields below
	shown string     // the last page's URL and title
	next  chan string
}

func startGuide(t *testing.T) *guide {
	t.Helper()
	g := &guide{next: make(chan string)}
	ends := make(chan struct{})
	g.url = startBackend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/start" { // Firefox loads the first page twice
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<!doctype html><link rel=icon href=data:,><script>", g.script(), "</script>")
			return
		}
		w.Header().Set("Access-Control-Allow-Origin", "*")
		said, _ := url.QueryUnescape(r.URL.RawQuery)
		g.mu.Lock()
		g.shown = said
		g.mu.Unlock()
		select {
		case next := <-g.next:
			_, _ = io.WriteString(w, next)
		case <-r.Context().Done():
		case <-ends:
		}
	})
	t.Cleanup(func() { close(ends) })
	return g
}

// open makes the browser visit a page.
func (g *guide) open(t *testing.T, page string) {
	t.Helper()
	select {
	case g.next <- page:
	case <-time.After(testkit.Patience):
		t.Fatal("the browser has not shown the page before")
	}
}

// script returns the script that a page must run when it is shown.
func (g *guide) script() string {
	return fmt.Sprintf("fetch('%s/?' + encodeURIComponent(location.href + ' ' + document.title)).then(a => a.text()).then(next => { if (next) location = next })", g.url)
}

// shows reports whether the page that was shown last has that title.
func (g *guide) shows(page, title string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shown == page+" "+title
}

// fullSite is a site with one worker. An expensive page holds the worker for as long as the test wants, and all other
// clients must wait.
type fullSite struct {
	*sidecarProcess
	script string // of its pages

	mu    sync.Mutex // guards the fields below
	asked []string   // requests at the backend: method, target, and the cookies
	dear  chan struct{}
	here  chan struct{} // receives a value when a request for an expensive page has arrived
}

// oneWorker makes all requests, however short, wait behind one page.
const oneWorker = "cpuCount: 1\ncost: {source: wall}\ngate: {heavy: 1, usage: off}\nstate: off\n"

// startFullSite starts the proxy in front of such a site, with further lines of configuration. The worker is free until
// fill is called.
func startFullSite(t *testing.T, yaml string) *fullSite {
	t.Helper()
	f := &fullSite{here: make(chan struct{}, 1)}
	backend := startBackend(t, f.serve)
	f.sidecarProcess = startProxyWith(t, []string{"TEMPOMAT_BACKEND_WORKERS=1"}, nil, backend, oneWorker+yaml)
	return f
}

// serve answers with a page whose title is the requested target.
func (f *fullSite) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/dear" {
		f.mu.Lock()
		dear := f.dear
		f.mu.Unlock()
		f.here <- struct{}{}
		<-dear
		return
	}
	f.mu.Lock()
	f.asked = append(f.asked, strings.TrimSpace(fmt.Sprint(r.Method, " ", r.RequestURI, " ", strings.Join(r.Header["Cookie"], "; "))))
	f.mu.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = fmt.Fprintf(w, "<!doctype html><html><head><title>%s</title><link rel=icon href=data:,></head><body>a page<script>%s</script></body></html>\n", r.RequestURI, f.script)
}

// saw returns the requests that reached the backend since the last call of saw, in order.
func (f *fullSite) saw() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.asked
	f.asked = nil
	slices.Sort(asked)
	return asked
}

// fill takes the only worker, until empty is called.
func (f *fullSite) fill(t *testing.T) (empty func()) {
	t.Helper()
	dear := make(chan struct{})
	f.mu.Lock()
	f.dear = dear
	f.mu.Unlock()
	answer := f.later(from("192.0.2.99"), "/dear")
	<-f.here
	return sync.OnceFunc(func() {
		close(dear)
		testkit.Same(t, "200 OK", <-answer, "the expensive page")
	})
}

// redirected returns the number of requests redirected since the start.
func (f *fullSite) redirected() uint64 { return f.stats().Counters["redirected"] }

// got formats a status and its redirect target.
func got(res *http.Response) string {
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return strings.TrimSpace(fmt.Sprint(res.StatusCode, " ", res.Header.Get("Location")))
}
