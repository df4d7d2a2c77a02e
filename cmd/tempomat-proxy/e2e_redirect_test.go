package main

import (
	"net/http"
	"os/exec"
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
