package newcomer

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"tempomat/classify"
	"tempomat/internal/testkit"
)

var dawn = time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)

const chrome = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"

// full is a site at which every stranger must wait. It redirects all clients that may be redirected, and shows
// all others how it recognised them.
type full struct {
	*Redirector
	now    time.Time
	client netip.Addr
	seen   []string // the requests, and how the site recognised their clients
}

func newFull() *full {
	return &full{Redirector: New(), now: dawn, client: netip.MustParseAddr("192.0.2.7")}
}

func (f *full) who() *classify.Result { return &classify.Result{Client: f.client, TrustedPeer: true} }

func (f *full) serve(w http.ResponseWriter, r *http.Request) string {
	switch who := f.who(); {
	case f.Verify(f.now, r, who):
		return "passed"
	case f.Eligible(f.now, r, who):
		f.Redirect(f.now, w, r, who)
		return "redirected"
	default:
		return "stranger"
	}
}

// RoundTrip lets an http.Client use the site without a network.
func (f *full) RoundTrip(out *http.Request) (*http.Response, error) {
	var wire bytes.Buffer
	if err := out.Write(&wire); err != nil {
		return nil, err
	}
	in, err := http.ReadRequest(bufio.NewReader(&wire))
	if err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	how := f.serve(w, in)
	f.seen = append(f.seen, in.RequestURI+" "+how)
	if how != "redirected" {
		_, _ = io.WriteString(w, how)
	}
	res := w.Result()
	res.Request = out
	return res, nil
}

// get requests a page as a browser does, and returns the final answer.
func (f *full) get(t *testing.T, jar http.CookieJar, target string, header ...string) string {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://site.example"+target, nil)
	testkit.Must(t, err)
	req.Header = navigation("/").Header
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := (&http.Client{Transport: f, Jar: jar}).Do(req)
	testkit.Must(t, err)
	body, _ := io.ReadAll(res.Body)
	return string(body)
}

func newJar() http.CookieJar {
	jar, _ := cookiejar.New(nil) // never fails without options
	return jar
}

// TestBrowserComesBack checks the purpose of the redirect: the browser comes back with a pass.
func TestBrowserComesBack(t *testing.T) {
	f, jar := newFull(), newJar()
	for _, target := range []string{"/wiki/A%2Fb?x;y=1&&z", "/wiki/second"} {
		testkit.Same(t, "passed", f.get(t, jar, target), "%s: served as", target)
	}
	want := "/wiki/A%2Fb?x;y=1&&z redirected, /wiki/A%2Fb?x;y=1&&z passed, /wiki/second passed"
	testkit.Same(t, want, strings.Join(f.seen, ", "), "the site saw")
	testkit.Same(t, Counts{Redirected: 1, CameBack: 1, Served: 2}, f.Counts(), "counted")
}

// TestWithoutJar plays curl without a cookie jar: whatever curl requests, it gets only one redirect within the pause,
// and never two in a row.
func TestWithoutJar(t *testing.T) {
	f := newFull()
	for range 100 {
		testkit.Same(t, "stranger", f.get(t, nil, "/page"), "served as")
		f.now = f.now.Add(10 * time.Second)
	}
	last := ""
	for _, seen := range f.seen {
		if seen == last && strings.HasSuffix(seen, "redirected") {
			t.Fatal("redirected twice in a row")
		}
		last = seen
	}
	counts := f.Counts()
	testkit.Same(t, uint64(100*10*time.Second/pause)+1, counts.Redirected, "redirects")
	if counts.CameBack != 0 || counts.Served != 0 || counts.Again != uint64(len(f.seen))-counts.Redirected {
		t.Errorf("counted %+v in %d requests", counts, len(f.seen))
	}
}

// TestTabsInParallel opens three pages before the first answer arrives: each redirect sets the same cookie,
// and each of the cookies is valid for all pages.
func TestTabsInParallel(t *testing.T) {
	f := newFull()
	waiting := []*http.Request{navigation("/1"), navigation("/2"), navigation("/3")}
	for _, r := range waiting {
		if !f.Eligible(f.now, r, f.who()) {
			t.Fatalf("%s waits as a stranger", r.RequestURI)
		}
	}
	for _, r := range waiting {
		w := httptest.NewRecorder()
		f.Redirect(f.now, w, r, f.who())
		back := navigation(r.RequestURI)
		back.AddCookie(w.Result().Cookies()[0])
		if !f.Verify(f.now, back, f.who()) {
			t.Errorf("%s is not recognised when it comes back", r.RequestURI)
		}
	}
	if f.Eligible(f.now, navigation("/4"), f.who()) {
		t.Error("another client without the cookie is redirected, too")
	}
	testkit.Same(t, Counts{Redirected: 3, CameBack: 3, Served: 3, Again: 1}, f.Counts(), "counted")
}

// TestChangeOfNetwork plays a phone that moves between two networks, and a client with both IPv4 and IPv6:
// each network gets one redirect, and no more.
func TestChangeOfNetwork(t *testing.T) {
	f, jar := newFull(), newJar()
	for range 5 {
		for _, client := range []string{"192.0.2.7", "2001:db8:1::1", "198.51.100.7", "192.0.2.8", "2001:db8:1:ffff::2"} {
			f.client = netip.MustParseAddr(client)
			testkit.Same(t, "passed", f.get(t, jar, "/"), "from %s: served as", client)
		}
	}
	testkit.Same(t, 3, f.Counts().Redirected, "redirects, one for each network")
}

// TestManyProxies plays a site behind more proxies than a browser follows redirects. The browser still gets its
// page.
func TestManyProxies(t *testing.T) {
	jar, most := newJar(), 0
	fleet := make([]*full, 50)
	for i := range fleet {
		fleet[i] = newFull()
	}
	turn := 0
	next := roundTripper(func(r *http.Request) (*http.Response, error) {
		turn++
		return fleet[turn%len(fleet)].RoundTrip(r)
	})
	hops := 0
	c := &http.Client{Transport: next, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { hops++; return nil }}
	for range 20 {
		req, _ := http.NewRequest(http.MethodGet, "http://site.example/", nil)
		req.Header = navigation("/").Header
		hops = 0
		res, err := c.Do(req)
		testkit.Must(t, err)
		_ = res.Body.Close()
		most = max(most, hops)
	}
	testkit.Same(t, maxPasses, most, "redirects in a row")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAnswer checks every part of a redirect.
func TestAnswer(t *testing.T) {
	for _, tc := range []struct {
		name    string
		proto   []string
		trusted bool
		secure  bool
	}{
		{"HTTP", nil, true, false},
		{"HTTPS, as a trusted proxy says", []string{"https"}, true, true}, // see classify.Secure
	} {
		n, w, r := New(), httptest.NewRecorder(), navigation("/a%2fb?c")
		r.Header["X-Forwarded-Proto"] = tc.proto
		r.Header.Set("Referer", "https://search.example/")
		n.Redirect(dawn, w, r, &classify.Result{Client: netip.MustParseAddr("192.0.2.7"), TrustedPeer: tc.trusted})
		h := w.Result().Header
		cookie := h.Get("Set-Cookie")
		want := "; Path=/; Max-Age=900; HttpOnly; SameSite=Lax"
		if tc.secure {
			want += "; Secure"
		}
		value, attributes, _ := strings.Cut(cookie, ";")
		if len(value) != len("tempomat_pass=")+27 || ";"+attributes != want {
			t.Errorf("%s: Set-Cookie: %s", tc.name, cookie)
		}
		delete(h, "Set-Cookie")
		if w.Code != 302 || len(h) != 4 || h.Get("Location") != "?c" || h.Get("Vary") != "Cookie" || h.Get("Cache-Control") != "no-store" || h.Get("Content-Length") != "0" {
			t.Errorf("%s: answer %d with %v", tc.name, w.Code, h)
		}
		testkit.Same(t, 0, w.Body.Len(), "%s: bytes of a body", tc.name)
	}
}

// TestOverRestart checks that passes stay valid after a restart, and that files without a key are rejected.
func TestOverRestart(t *testing.T) {
	f, jar := newFull(), newJar()
	f.get(t, jar, "/")
	saved, err := f.AppendBinary([]byte("before"))
	testkit.Must(t, err)
	saved = saved[len("before"):]
	again := newFull()
	testkit.Must(t, again.UnmarshalBinary(saved))
	again.now = dawn.Add(time.Minute)
	if got := again.get(t, jar, "/"); got != "passed" || len(again.seen) != 1 {
		t.Errorf("after a restart: %v", again.seen)
	}
	for _, cut := range [][]byte{nil, saved[1:], saved[:len(saved)-1]} {
		if again.UnmarshalBinary(cut) == nil {
			t.Errorf("a file of %d bytes is accepted", len(cut))
		}
	}
	testkit.Same(t, "passed", again.get(t, jar, "/"), "after damaged files: served as")
}

// navigation returns the request of a person who clicks a link.
func navigation(target string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RequestURI = target
	r.Header.Set("User-Agent", chrome)
	r.Header.Set("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	return r
}

func TestLocation(t *testing.T) {
	for target, want := range map[string]bool{
		"/": true, "/a/b.html": true, "/?": true, "/?a=b;c&&": true, "/a%2Fb": true, "/%zz": true, "/a:b@c!$&'()*+,=": true,
		"/?//evil.example/": true, "/?http://evil.example/": true, "/http://evil.example/": true, "/a//b": true, "/%2f/evil.example": true,
		"/?../x": true, "/a.b/c..d": true, "/@evil.example": true, "/:80": true, "/a?b?c/./d": true,

		"": false, "*": false, "a": false, "//": false, "//evil.example": false, "///evil.example": false,
		`/\evil.example`: false, `\/evil.example`: false, `/a\b`: false, `/?a\b`: false,
		"http://site.example/": false, "https:/a": false, "javascript:alert(1)": false, "site.example:80": false,
		"/\t/evil.example": false, "/\r\nSet-Cookie: a=b": false, "/\n": false, "/a b": false, "/\x00": false, "/\x7f": false,
		"/caf\xc3\xa9": false, "/\xff": false, "/?\x80": false, "/a#b": false, "/#": false,
		"/.": false, "/..": false, "/../a": false, "/a/./b": false, "/a/..": false, "/%2e%2e/a": false, "/a/%2E": false,
		"/.git/config": false, "/.well-known/x": false, "/.//evil.example": false,
	} {
		testkit.Same(t, want, isLocation(target), "%q", target)
	}
	if !isLocation("/"+strings.Repeat("a", maxTarget-1)) || isLocation("/"+strings.Repeat("a", maxTarget)) {
		t.Error("a long target")
	}
}

// FuzzLocation checks that a redirect leads to the same URL for a parser that follows RFC 3986 and for one
// that is as lenient as browsers.
func FuzzLocation(f *testing.F) {
	for _, target := range []string{"/", "//a", "/\\a", "/\t/a", "/a?b", "/%2e/", "http://a/", "/a/..//b", "/#", "/a;b?c#d", "/{}|^`\"<>'"} {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		if !isLocation(target) {
			return
		}
		lenient := strings.NewReplacer("\\", "/", "\t", "", "\n", "", "\r", "").Replace(strings.TrimSpace(target))
		if lenient != target || len(target) > 1 && lenient[1] == '/' || strings.ContainsAny(target, "\r\n #") {
			t.Fatalf("%q is another URL to a browser", target)
		}
		base, err := url.Parse("https://site.example" + target)
		if err != nil {
			return // a % that escapes nothing: browsers take it literally
		}
		to, err := base.Parse(locationOf(target))
		if err != nil {
			t.Fatalf("%q: %v", target, err)
		}
		if to.Scheme != "https" || to.Host != "site.example" || to.User != nil || to.Fragment != "" {
			t.Fatalf("%q leads to %s", target, to)
		}
		path, query, _ := strings.Cut(target, "?")
		if to.RawQuery != query {
			t.Fatalf("%q asks for %q", target, to.RawQuery)
		}
		if want, err := url.PathUnescape(path); err != nil || to.Path != want {
			t.Fatalf("%q leads to the path %q", target, to.Path)
		}
	})
}
