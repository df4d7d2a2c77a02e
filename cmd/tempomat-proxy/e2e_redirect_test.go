package main

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// curl runs curl as a browser of an address would ask, in the background, and
// tells what it printed: for each page the status, how often it was redirected,
// and the URL where it ended.
func (f *fullSite) curl(t *testing.T, client string, args ...string) <-chan string {
	t.Helper()
	path, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal("this test needs curl, which is not here: make deps")
	}
	h := clicked(client)
	all := []string{"-sS", "--max-time", "60", "-o", "/dev/null", "-w", `%{http_code} %{num_redirects} %{url_effective}\n`}
	for name := range h {
		all = append(all, "-H", name+": "+h.Get(name))
	}
	c := exec.Command(path, append(all, args...)...)
	c.Env = cleanEnv()
	said := make(chan string, 1)
	go func() {
		out, err := c.CombinedOutput()
		if err != nil {
			out = append(out, err.Error()...)
		}
		said <- strings.ReplaceAll(strings.TrimSpace(string(out)), f.url, "")
	}()
	return said
}

// TestCurlWithoutJar keeps no cookie: it is sent away once, and waits like other
// strangers when it asks again, whatever it asks for.
func TestCurlWithoutJar(t *testing.T) {
	t.Parallel()
	f := startFullSite(t, "")
	empty := f.fill(t)
	defer empty()
	if got := <-f.curl(t, "203.0.113.1", f.url+"/w/page?a%2fb;c"); got != "302 0 /w/page?a%2fb;c" {
		t.Errorf("the first time: %s", got)
	}
	again := f.curl(t, "203.0.113.1", f.url+"/w/page?a%2fb;c")
	follows := f.curl(t, "203.0.113.2", "-L", f.url+"/w/other")
	testkit.Eventually(t, "both wait, the second after one redirect", func() bool { return f.stats().Held == 2 && f.redirected() == 2 })
	f.outwait(t, "203.0.113.3")
	if got := got(open(t, newH2C(t), http.MethodGet, f.url+"/h2/page", clicked("203.0.113.4"), nil)); got != "302 ./page" {
		t.Errorf("over HTTP/2: %s", got)
	}
	empty()
	if got := <-again; got != "200 0 /w/page?a%2fb;c" {
		t.Errorf("the second time: %s", got)
	}
	if got := <-follows; got != "200 1 /w/other" {
		t.Errorf("with -L: %s", got)
	}
	if n := f.redirected(); n != 4 {
		t.Errorf("%d redirects, want one for each address", n)
	}
	if saw, want := f.saw(), []string{"GET /w/other", "GET /w/page?a%2fb;c"}; !slices.Equal(saw, want) {
		t.Errorf("the site saw %q, want %q", saw, want)
	}
}

// outwait waits until a newcomer was redirected: whoever waited before that and
// was to be redirected, was.
func (f *fullSite) outwait(t *testing.T, client string) {
	t.Helper()
	if got := got(open(t, newClient(t), http.MethodGet, f.url+"/", clicked(client), nil)); got != "302 ./" {
		t.Fatalf("%s, which is to be redirected, got %s", client, got)
	}
}

// TestCurlWithJar keeps its cookies: one redirect, then every page of the time.
func TestCurlWithJar(t *testing.T) {
	t.Parallel()
	f := startFullSite(t, "")
	jar := filepath.Join(tempDir(t), "jar")
	for i, want := range []string{"200 1 /page", "200 0 /page"} {
		empty := f.fill(t)
		said := f.curl(t, "203.0.113.1", "-L", "-c", jar, "-b", jar, f.url+"/page")
		testkit.Eventually(t, "it waits, redirected", func() bool { return f.stats().Held == 1 && f.redirected() == uint64(1+i) })
		f.outwait(t, []string{"203.0.113.2", "203.0.113.3"}[i])
		empty()
		if got := <-said; got != want {
			t.Errorf("page %d: %s, want %s", i+1, got, want)
		}
	}
	if saw, want := f.saw(), []string{"GET /page", "GET /page"}; !slices.Equal(saw, want) {
		t.Errorf("the site saw %q, want %q, and not the pass", saw, want)
	}
}

// click is a person's click, of another method, on a target that may be no URL.
func (f *fullSite) click(t *testing.T, method, target, client string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, f.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Header, r.URL.Opaque = clicked(client), target; strings.HasPrefix(target, "//") { // that would be another host
		r.URL.Opaque, r.URL.Path = "", target
	}
	return r
}

// TestNeverRedirected waits as all do who cannot be told to come back, or have no
// need of it, until it is their turn.
func TestNeverRedirected(t *testing.T) {
	t.Parallel()
	f := startFullSite(t, "exempt: [{path: /exempt}]\nlimits: [{name: once, path: /limited, class: slash32, max: 1, duration: 1h}]\n")
	type request struct{ method, path, field, value string }
	all := []request{
		{"GET", "/blog", "Accept", "application/rss+xml"},
		{"GET", "/feed/", "", ""},
		{"GET", "/api", "Accept", "application/json"},
		{"GET", "/style.css", "Accept", "text/css,*/*;q=0.1"},
		{"GET", "/any", "Accept", "*/*"},
		{"POST", "/form", "", ""},
		{"HEAD", "/page", "", ""},
		{"GET", "/download", "Range", "bytes=5-"},
		{"GET", "/next", "Sec-Purpose", "prefetch"},
		{"GET", "/.well-known/acme-challenge/x", "", ""},
		{"GET", "/", "Cookie", "session=0123456789abcdef"},
		{"GET", "/robot", "User-Agent", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"},
		{"GET", "/curl", "User-Agent", "curl/8.5.0"},
		{"GET", "//evil.example/", "", ""},
		{"GET", `/\evil.example/`, "", ""},
		{"GET", "/limited", "", ""},
	}
	empty := f.fill(t)
	defer empty()
	c := newClient(t)
	answers := make([]chan string, len(all))
	for i, q := range all {
		r := f.click(t, q.method, q.path, fmt.Sprint("203.0.113.", 1+i))
		if q.field != "" {
			r.Header.Set(q.field, q.value)
		}
		answers[i] = make(chan string, 1)
		go func() {
			res, err := c.Do(r)
			if err != nil {
				answers[i] <- err.Error()
				return
			}
			answers[i] <- got(res)
		}()
	}
	testkit.Eventually(t, "all wait", func() bool { return f.stats().Held == len(all) })
	if got := got(open(t, c, http.MethodGet, f.url+"/exempt", clicked("203.0.113.250"), nil)); got != "200" {
		t.Errorf("who is exempt got %s", got)
	}
	f.outwait(t, "203.0.113.251")
	empty()
	for i, answer := range answers {
		if got := <-answer; got != "200" {
			t.Errorf("%+v: %s", all[i], got)
		}
	}
	if n := f.redirected(); n != 1 {
		t.Errorf("%d were redirected, want only who was to be", n)
	}
}

// TestPassesThatDoNotCount are forged, of another network, and of a proxy that is
// no more: their bearers are strangers, and are redirected once.
func TestPassesThatDoNotCount(t *testing.T) {
	t.Parallel()
	f, other := startFullSite(t, ""), startFullSite(t, "")
	given := func(f *fullSite, client string) string {
		defer f.fill(t)()
		res := open(t, newClient(t), http.MethodGet, f.url+"/", clicked(client), nil)
		pass, _, _ := strings.Cut(res.Header.Get("Set-Cookie"), ";")
		if got(res) != "302 ./" || pass == "" {
			t.Fatalf("no pass for %s", client)
		}
		return pass
	}
	good := given(f, "203.0.113.1")
	empty := f.fill(t)
	defer empty()
	c := newClient(t)
	before := f.redirected()
	var waiting []<-chan string
	for client, pass := range map[string]string{
		"203.0.113.7":  good, // a neighbour: it counts
		"198.51.100.1": good, // a foreign one
		"198.51.101.1": given(other, "198.51.101.1"),
		"198.51.102.1": "tempomat_pass=" + strings.Repeat("A", 27),
		"198.51.103.1": "tempomat_pass=\"=,\"; tempomat_pass=",
		"198.51.104.1": "tempomat_pass=" + strings.Repeat("...", 1000),
	} {
		h := clicked(client)
		h["Cookie"] = []string{pass}
		if counts := pass == good && client == "203.0.113.7"; !counts {
			if got := got(open(t, c, http.MethodGet, f.url+"/", h.Clone(), nil)); got != "302 ./" {
				t.Errorf("%s with %.40s: %s", client, pass, got)
			}
		}
		waiting = append(waiting, f.later(h, "/"))
	}
	testkit.Eventually(t, "all wait the second time", func() bool { return f.stats().Held == len(waiting) })
	f.outwait(t, "198.51.105.1")
	empty()
	for _, answer := range waiting {
		if got := <-answer; got != "200 OK" {
			t.Errorf("the second time: %s", got)
		}
	}
	if n := f.redirected() - before; n != 6 {
		t.Errorf("%d redirects, want 6", n)
	}
}

// TestRedirectSwitchedOff has everybody wait.
func TestRedirectSwitchedOff(t *testing.T) {
	t.Parallel()
	f := startFullSite(t, "newcomers: {redirect: false}\n")
	on := startFullSite(t, "")
	empty := f.fill(t)
	defer empty()
	defer on.fill(t)()
	said := f.curl(t, "203.0.113.1", "-L", f.url+"/page")
	testkit.Eventually(t, "it waits", func() bool { return f.stats().Held == 1 })
	on.outwait(t, "203.0.113.1") // at a proxy that does
	empty()
	if got := <-said; got != "200 0 /page" || f.redirected() != 0 {
		t.Errorf("%s, %d redirects", got, f.redirected())
	}
}
