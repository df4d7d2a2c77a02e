package standing

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"tempomat/classify"
)

const aPage = `<!DOCTYPE html><html><head>
<link rel="stylesheet" href="/a.css?v=1&amp;w=2"><link rel=stylesheet href=sub/b.css>
<link rel="canonical" href="/canonical.css"><a href="/linked.css">x</a>
<script src='https://www.example.com/c.js'></script></head><img alt="<" src="../d.png" srcset="/e.png 1x, /f.png 2x">`

func zipped(page string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(page))
	_ = w.Close()
	return b.Bytes()
}

// TestPartIsNamed checks that a part proves something if a page named it, plain or
// compressed, and nothing otherwise.
func TestPartIsNamed(t *testing.T) {
	for encoding, body := range map[string][]byte{
		"":     []byte(aPage),
		"gzip": zipped(aPage),
	} {
		for path, want := range map[string]classify.Evidence{
			"/a.css?v=1&w=2":    classify.Parts,
			"/wiki/sub/b.css":   classify.Parts,
			"/a.css":            0,
			"/a.css?v=2&w=2":    0,
			"/other.css":        0,
			"/linked.css":       0,
			"/canonical.css":    0,
			"/sub/b.css":        0,
			"/wiki/./sub/b.css": 0, // no browser asks so
		} {
			x := newStandingSite(t)
			x.body = body
			answer := []string{}
			if encoding != "" {
				answer = append(answer, "Content-Encoding: "+encoding)
			}
			x.ask(0, "192.0.2.1", "/wiki/Page?x", nil, answer...)
			x.body = nil
			x.ask(0, "192.0.2.9", "/a.css?v=1&w=2", nil) // somebody's browser asks for what is named
			for range 2 {
				x.ask(time.Second, "192.0.2.1", path, nil)
			}
			if res := x.ask(time.Second, "192.0.2.1", "/", nil); res.Evidence != want {
				t.Errorf("%q: %s proves %q, want %q", encoding, path, res.Evidence, want)
			}
			x.ask(time.Second, "192.0.2.2", "/wiki/Page", nil)
			x.status = http.StatusNotModified
			x.ask(time.Second, "192.0.2.2", path, []string{`If-None-Match: "x"`})
			x.status = 0
			if res := x.ask(time.Second, "192.0.2.2", "/", nil); res.Evidence != want {
				t.Errorf("%q: having %s still proves %q, want %q", encoding, path, res.Evidence, want)
			}
		}
	}
}

// TestNamesDoNotDecide checks that the type alone decides where pages cannot be read,
// or what they name is never asked for, as behind a front that changes paths.
func TestNamesDoNotDecide(t *testing.T) {
	proves := func(x *standingSite, at time.Duration) bool {
		x.ask(at, "192.0.2.1", "/", nil, "Content-Encoding: br")
		for range 2 {
			x.ask(at, "192.0.2.1", "/unnamed.css", nil)
		}
		return x.ask(at, "192.0.2.1", "/", nil, "Content-Encoding: br").Evidence&classify.Parts != 0
	}
	x := newStandingSite(t)
	x.body = []byte("<link rel=stylesheet href=/a.css>")
	if !proves(x, 0) {
		t.Error("no page could be read")
	}
	x.ask(time.Hour, "192.0.2.3", "/", nil)
	if !proves(x, time.Hour) {
		t.Error("nobody ever asked for what pages name")
	}
	x.ask(2*time.Hour, "192.0.2.3", "/", nil)
	x.ask(2*time.Hour, "192.0.2.3", "/a.css", nil)
	if proves(x, 2*time.Hour) {
		t.Error("names are known and asked for")
	}
	if !proves(x, 4*time.Hour) {
		t.Error("no page was read for two hours")
	}
}

// TestEncodings: a page that cannot be read takes no place of one that can.
func TestEncodings(t *testing.T) {
	for _, x := range []struct {
		encoding []string
		want     bool
	}{{nil, true}, {[]string{"gzip"}, true}, {[]string{"br"}, false}, {[]string{"gzip", "br"}, false}, {[]string{"br", "gzip"}, false}} {
		s, err := New([16]byte{}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{"Content-Encoding": x.encoding}
		if p := s.Page(noon, pageRequest("192.0.2.1"), &Visit{unread: true}, h); (p != nil) != x.want || s.names.open == 1 != x.want {
			t.Errorf("%q is read: %t", x.encoding, p != nil)
		}
	}
}

// TestPagesAreReadWithinBounds checks that few are read at a time, and those of who
// shows its parts anyway are not.
func TestPagesAreReadWithinBounds(t *testing.T) {
	x := newStandingSite(t)
	h := http.Header{"Content-Type": {"text/html"}}
	open := func(at time.Duration, client int) *Page {
		r := pageRequest(fmt.Sprintf("192.0.2.%d", client))
		var res classify.Result
		var visit Visit
		x.c.Classify(r, &res)
		x.s.Assess(noon.Add(at), r, &res, &visit)
		x.s.Answered(noon.Add(at), r, &visit, http.StatusOK, h)
		return x.s.Page(noon.Add(at), r, &visit, h)
	}
	var pages []*Page
	for second := range 5 {
		n := 0
		for i := range 50 {
			if p := open(time.Duration(second)*time.Second, i+1); p != nil {
				pages = append(pages, p)
				n++
			}
		}
		if n > pagesASecond {
			t.Errorf("%d pages in a second", n)
		}
	}
	if len(pages) != pagesOpen {
		t.Errorf("%d pages are open", len(pages))
	}
	for _, p := range pages {
		for range 10 {
			if n, err := p.Write(make([]byte, 10_000)); n != 10_000 || err != nil {
				t.Fatal("a page was not taken")
			}
		}
		if cap(p.body) > 2*pageBytes {
			t.Errorf("%d bytes are kept of a page", cap(p.body))
		}
		p.End()
	}
	if x.s.names.open != 0 {
		t.Errorf("%d pages are open after all have ended", x.s.names.open)
	}
	if p := open(time.Minute, 1); p == nil {
		t.Error("no page is read any more")
	}
	for range 10 {
		x.ask(time.Minute, "192.0.2.1", "/a.css", nil)
	}
	if p := open(time.Minute, 1); p != nil {
		t.Error("the pages of somebody are read who has shown parts")
	}
}

func TestNamesAreBounded(t *testing.T) {
	var n names
	for i := range uint64(10 * namesKept) {
		if n.begin(int64(i)); n.open != 1 {
			t.Fatalf("%d are open", n.open)
		}
		n.done(int64(i), []uint64{1, i + 2})
	}
	if len(n.now) > namesKept || len(n.old) > namesKept || !n.may(10*namesKept, 1) || n.may(10*namesKept, 2) {
		t.Errorf("%d and %d names", len(n.now), len(n.old))
	}
}

func TestEachName(t *testing.T) {
	for page, want := range map[string][]string{
		aPage: {"/a.css?v=1&w=2", "sub/b.css", "https://www.example.com/c.js", "../d.png", "/e.png", "/f.png"},
		`<IMG SRC="/a.png"/><img/src=/b.png><img  src = '/c.png' >`:                  {"/a.png", "/c.png"},
		`<link href=/i.ico rel="shortcut icon"><link href="/p" rel="modulepreload">`: {"/i.ico", "/p"},
		`<link rel="alternate" href="/feed"><link src="/x" rel=stylesheet>`:          nil,
		`<imgx src=/a><scripts src=/b>`:                                              nil,
		`<picture><source srcset="/a.webp"><source srcset=/b.png></picture>`:         {"/a.webp", "/b.png"},
		`<strong src=/a><lint rel=icon href=/b><inf src=/c>`:                         nil,
		`<img rel=icon href=/a><script rel=icon href=/b>`:                            nil,
		`<img / src=/a><img alt/src=/b>`:                                             {"/a", "/b"},
		`<img data-src=/a src>`:                                                      {""},
		`<img src="/a`:                                                               nil,
		`<img src=/a`:                                                                nil,
		`<img =x src=/a><img src=/b>`:                                                {"/b"},
		`<`:                                                                          nil,
		`<img `:                                                                      nil,
		`<input type=image src=" /a.png ">`:                                          {"/a.png"},
	} {
		var got []string
		eachName([]byte(page), func(name string) bool {
			got = append(got, name)
			return true
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", page, diff)
		}
	}
	n := 0
	eachName([]byte(strings.Repeat(`<img src=/a srcset="/b, /c">`, 10)), func(string) bool { n++; return n < 5 })
	if n != 5 {
		t.Errorf("%d names after it was told to stop at five", n)
	}
}

// FuzzPage checks that whatever a page holds is read to its end, and that no more is
// kept of it than is allowed.
func FuzzPage(f *testing.F) {
	f.Add([]byte(aPage), false)
	f.Add(zipped(aPage), true)
	f.Add([]byte(`<img src=`+"\x00"+`%zz><link rel=icon href="//h:x/y">`), false)
	f.Fuzz(func(t *testing.T, body []byte, gzipped bool) {
		s, err := New([16]byte{}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		if gzipped {
			h.Set("Content-Encoding", "gzip")
		}
		p := s.Page(noon, httptest.NewRequest(http.MethodGet, "/a/b", nil), &Visit{unread: true}, h)
		_, _ = p.Write(body)
		p.End()
		if len(s.names.now) > pageNames || s.names.open != 0 {
			t.Errorf("%d names, %d pages open", len(s.names.now), s.names.open)
		}
	})
}
