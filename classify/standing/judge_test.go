package standing

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"tempomat/classify"
	"tempomat/internal/testkit"
	"tempomat/limiter"
)

func TestCookieComesBack(t *testing.T) {
	x := newStandingSite(t)
	expectStanding(t, "first", x.ask(0, "192.0.2.1", "/", nil, "Set-Cookie: "+sid+"; Path=/"), 1, 0)
	res := x.ask(time.Second, "192.0.2.1", "/", []string{"Cookie: lang=en; " + sid})
	expectStanding(t, "it comes back", res, 2, classify.Cookie)
	testkit.Same(t, "192.0.2.1", res.Address, "its address")
	if k := res.Keys(); len(k) != 3 || k[0].Class != "session" || !strings.HasPrefix(k[0].ID, "192.0.2.1#") || k[1] != (limiter.Key{Class: "slash32", ID: "192.0.2.1"}) {
		t.Errorf("keys %v", k)
	}
	again := x.ask(2*time.Second, "192.0.2.1", "/", []string{"Cookie: " + sid})
	testkit.Same(t, res.Keys()[0], again.Keys()[0], "the session")
	expectStanding(t, "another address of the network", x.ask(3*time.Second, "192.0.2.99", "/", []string{"Cookie: " + sid}), 2, classify.Cookie)
	expectStanding(t, "another network", x.ask(4*time.Second, "192.0.3.1", "/", []string{"Cookie: " + sid}), 1, 0)
	expectStanding(t, "another name", x.ask(4*time.Second, "192.0.3.1", "/", []string{"Cookie: x" + sid}), 1, 0)
	expectStanding(t, "one that was never given", x.ask(5*time.Second, "192.0.2.7", "/", []string{"Cookie: sid=fedcba9876543210"}), 1, 0)
}

// TestSessionsOfAnAddress checks that an address has a limited number of sessions, and that an office counts
// as several clients.
func TestSessionsOfAnAddress(t *testing.T) {
	x := newStandingSite(t)
	for i := range maxSessions + 10 {
		x.ask(0, "192.0.2.1", "/", nil, "Set-Cookie: "+cookie(i))
	}
	for i := range maxSessions + 10 {
		res := x.ask(0, "192.0.2.1", "/", []string{"Cookie: " + cookie(i)})
		testkit.Same(t, i < maxSessions, res.Keys()[0].Class == "session", "session %d: is a session", i)
		if want := max(1, min(maxCompany, float64(i))); i < maxSessions && res.ClientsBehind != want {
			t.Errorf("session %d: the address counts as %g clients, want %g", i, res.ClientsBehind, want)
		}
	}
	expectStanding(t, "somebody new at the same address", x.ask(0, "192.0.2.1", "/", nil), 2, classify.Cookie)
}

// TestHastySessions: an address with twenty sessions counts as several clients, and each session as a person, unless
// these request more pages than people read.
func TestHastySessions(t *testing.T) {
	for every, want := range map[time.Duration][2]float64{5 * time.Second: {maxCompany, 100}, 2 * time.Second: {4, 25}, 500 * time.Millisecond: {1, 1}} {
		x := newStandingSite(t)
		for i := range 20 {
			x.ask(0, "192.0.2.1", "/", nil, "Set-Cookie: "+cookie(i))
		}
		var last *classify.Result
		for at := every; at <= 20*time.Minute; at += every {
			for i := range 20 {
				last = x.ask(at, "192.0.2.1", "/", []string{"Cookie: " + cookie(i)})
			}
		}
		testkit.Same(t, want, [2]float64{math.Floor(last.ClientsBehind), math.Floor(100 * last.Person)}, "a page every %v: the clients behind the address, and percent of a person", every)
	}
}

// TestParts checks that a client gains by loading the parts of pages, if the parts belong to this site and soon
// follow most of the pages.
func TestParts(t *testing.T) {
	for name, c := range map[string]struct {
		path   string
		header []string
		after  time.Duration
		pages  int
		status int
		want   classify.Evidence
	}{
		"they follow":               {"/a.css", nil, time.Second, 1, 200, classify.Parts},
		"of four pages":             {"/a.css", nil, time.Second, 4, 200, classify.Parts},
		"of too many pages":         {"/a.css", nil, time.Second, 9, 200, 0},
		"what it has still":         {"/a.css", []string{`If-None-Match: "x"`}, time.Second, 7, 304, classify.Parts},
		"what it has no longer":     {"/a.css", []string{`If-None-Match: "x"`}, time.Second, 7, 200, 0},
		"what anybody has":          {"/a.css", []string{"If-None-Match: *"}, time.Second, 7, 304, 0},
		"a date":                    {"/a.css", []string{"If-Modified-Since: Sun, 22 Nov 2026 00:00:00 GMT"}, time.Second, 7, 304, 0},
		"what is not there":         {"/a.css", nil, time.Second, 1, 404, 0},
		"what is elsewhere":         {"/a.css", nil, time.Second, 1, 302, 0},
		"a piece":                   {"/a.css", nil, time.Second, 1, 206, 0},
		"an export as an image":     {"/export.json", []string{"Sec-Fetch-Dest: image"}, time.Second, 1, 200, 0},
		"too late":                  {"/a.css", nil, time.Minute, 1, 200, 0},
		"before any page":           {"/a.css", nil, time.Second, 0, 200, 0},
		"of another site":           {"/a.css", []string{"Referer: https://other.example/"}, time.Second, 1, 200, 0},
		"of this site":              {"/a.css", []string{"Referer: https://example.com/page"}, time.Second, 1, 200, classify.Parts},
		"from another site":         {"/a.css", []string{"Sec-Fetch-Site: cross-site"}, time.Second, 1, 200, 0},
		"a page that is no part":    {"/a.html", nil, time.Second, 1, 200, 0},
		"a script without its name": {"/a.php", []string{"Sec-Fetch-Dest: script", "Sec-Fetch-Site: same-origin"}, time.Second, 0, 200, 0},
		"parts of no page":          {"/a.css", nil, time.Second, -1, 200, 0},
		"a download":                {"/a.css", []string{"Sec-Fetch-Dest: document"}, time.Second, 1, 200, 0},
	} {
		x := newStandingSite(t)
		for range c.pages {
			x.ask(0, "192.0.2.1", "/", nil)
		}
		if c.pages < 0 { // the request for it fails
			x.status = http.StatusNotFound
			x.ask(0, "192.0.2.1", "/", nil)
		}
		x.status = c.status
		x.ask(c.after, "192.0.2.1", c.path, c.header)
		x.ask(c.after, "192.0.2.1", c.path, c.header)
		x.status = 0
		res := x.ask(c.after, "192.0.2.1", "/", nil)
		testkit.Same(t, c.want, res.Evidence&classify.Parts, "%s: evidence", name)
	}
	x := newStandingSite(t)
	x.ask(0, "192.0.2.1", "/", nil)
	for range 3 {
		x.ask(time.Second, "192.0.2.1", "/a.css", nil)
	}
	testkit.Same(t, 0, x.ask(time.Hour, "192.0.2.1", "/", nil).Evidence, "evidence an hour later")
}

// TestPartsOfTheFirstPage checks that a session inherits the page that brought its cookie.
func TestPartsOfTheFirstPage(t *testing.T) {
	x := newStandingSite(t)
	x.ask(0, "192.0.2.1", "/", nil, "Set-Cookie: "+sid)
	for range 2 {
		x.ask(time.Second, "192.0.2.1", "/a.css", []string{"Cookie: " + sid})
	}
	key := x.ask(2*time.Second, "192.0.2.1", "/a.css", []string{"Cookie: " + sid}).Keys()[0]
	if v, ok := x.s.Visits(noon.Add(2*time.Second), key.ID); !ok || v.Pages < 0.99 || v.Pages > 1 {
		t.Errorf("the session has %g pages, want the one that brought its cookie", v.Pages)
	}
	expectStanding(t, "the second page", x.ask(5*time.Second, "192.0.2.1", "/", []string{"Cookie: " + sid}), 4, classify.Cookie|classify.Parts)
}

// TestSessionKeepsItsParts: a browser that loaded the parts of some pages, and then gets its first cookie at the
// login form, loses nothing when it becomes a session. A session behind an address that loads no parts begins with
// the page that brought its cookie, so it can still gain evidence by loading the parts.
func TestSessionKeepsItsParts(t *testing.T) {
	for name, c := range map[string]struct {
		pages, parts int // before the login form
		want         float64
		evidence     classify.Evidence
	}{
		"the parts of one page":        {1, 4, 4, classify.Cookie | classify.Parts},
		"the parts of several pages":   {5, 4, 4, classify.Cookie | classify.Parts},
		"no parts":                     {1, 0, 2, classify.Cookie},
		"parts of too few pages":       {20, 4, 2, classify.Cookie},
		"too few parts to be evidence": {1, 1, 2, classify.Cookie},
	} {
		x := newStandingSite(t)
		for range c.pages {
			x.ask(0, "192.0.2.1", "/", nil)
		}
		for range c.parts {
			x.ask(time.Second, "192.0.2.1", "/a.css", nil)
		}
		x.ask(2*time.Second, "192.0.2.1", "/login", nil, "Set-Cookie: "+sid)
		res := x.ask(3*time.Second, "192.0.2.1", "/login", []string{"Cookie: " + sid})
		if res.Standing != c.want || res.Evidence != c.evidence {
			t.Errorf("%s: standing %g by %q, want %g by %q", name, res.Standing, res.Evidence, c.want, c.evidence)
		}
		if v, ok := x.s.Visits(noon.Add(3*time.Second), res.Keys()[0].ID); !ok || v.Pages < 1.9 || v.Pages > 2 {
			t.Errorf("%s: the session has %g pages, want the one that brought its cookie and its own", name, v.Pages)
		}
	}
}

// TestCrawlerInAnOffice plays a crawler that keeps its cookie at an address where others load parts. The crawler
// benefits from their evidence for some pages.
func TestCrawlerInAnOffice(t *testing.T) {
	x := newStandingSite(t)
	for range 50 {
		x.ask(0, "192.0.2.1", "/", nil)
		x.ask(0, "192.0.2.1", "/a.css", nil)
	}
	x.ask(time.Second, "192.0.2.1", "/", nil, "Set-Cookie: "+sid)
	pages := 0
	for x.ask(2*time.Second, "192.0.2.1", "/", []string{"Cookie: " + sid}).Evidence&classify.Parts != 0 && pages < 100 {
		pages++
	}
	if pages < 2 || pages > 6 {
		t.Errorf("the crawler counts as loading parts for %d pages", pages)
	}
}

func TestAttested(t *testing.T) {
	for told, want := range map[string]float64{
		"yes": 4, "6": 6, "0.5": 0.5, "8": 8, "9": 1, "-1": 1, "NaN": 1, "": 1, "0": 1, "four": 1,
	} {
		x := newStandingSite(t)
		x.ask(0, "192.0.2.1", "/", nil, Header+": "+told)
		testkit.Same(t, want, x.ask(time.Minute, "192.0.2.1", "/", []string{Header + ": 8"}).Standing, "%q: standing", told)
		testkit.Same(t, 1, x.ask(2*time.Hour, "192.0.2.1", "/", nil).Standing, "%q: standing two hours later", told)
	}
	x := newStandingSite(t)
	expectStanding(t, "a trusted network", x.ask(0, "10.1.2.3", "/", nil, Header+": 0.5"), 4, classify.Attested)
	expectStanding(t, "a trusted network, of which the backend thinks less", x.ask(0, "10.1.2.3", "/", nil), 4, classify.Attested)
}

// TestUnjudgedRequest: a request that isn't judged is treated as a stranger's, and nothing of it is remembered.
func TestUnjudgedRequest(t *testing.T) {
	c := classify.New(classify.Config{Exempt: []classify.Exemption{{Path: "/free"}}, Classes: []classify.Class{{Name: "slash32", By: classify.Slash32}}})
	x := newStandingSite(t)
	r := pageRequest("192.0.2.1")
	r.URL.Path = "/free"
	var res classify.Result
	var visit Visit
	c.Classify(r, &res)
	res.Standing, res.Evidence, res.ClientsBehind, res.Person, res.Address = 3, classify.Cookie, 2, 1, "192.0.2.9"
	res.Session, res.Face, res.Follows = true, 3, true
	x.s.Assess(noon, r, &res, &visit)
	if res.Standing != 1 || res.Evidence != 0 || res.ClientsBehind != 1 || res.Person != 0 || res.Address != "" || res.Session || res.Face != 0 || res.Follows {
		t.Errorf("it is judged: %+v", res)
	}
	before, _ := x.s.AppendBinary(nil)
	h := http.Header{"Content-Type": {"text/html"}, "Set-Cookie": {sid}, Header: {"8"}}
	x.s.Answered(noon, r, &visit, http.StatusOK, h)
	after, _ := x.s.AppendBinary(nil)
	if string(before) != string(after) || len(h[Header]) > 0 {
		t.Errorf("the judge remembers the request, or leaves a header to the client: %v", h)
	}
	post := pageRequest("192.0.2.1")
	post.Method, post.URL.Path = http.MethodPost, "/a.css"
	if isPart(post) {
		t.Error("a POST is a part of a page")
	}
	if isPartType(http.Header{}) {
		t.Error("an answer without a type is a part")
	}
}

func FuzzStandingState(f *testing.F) {
	s := New([16]byte{}, Config{})
	saved, _ := s.AppendBinary(nil)
	f.Add(saved)
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := New([16]byte{}, Config{})
		if s.UnmarshalBinary(data) != nil {
			if after, _ := s.AppendBinary(nil); string(after) != string(saved) {
				t.Error("the refused value changed something")
			}
		}
	})
}

// FuzzCookies checks that reading cookies stays within its limits, whatever a client sends.
func FuzzCookies(f *testing.F) {
	f.Add("a=0123456789abcdef; b=c", "sid=0123456789abcdef; Path=/")
	f.Add(";;=;a==;", "=")
	f.Fuzz(func(t *testing.T, cookie, given string) {
		n := 0
		eachCookie([]string{cookie}, func(_, value string) bool {
			if n++; n > maxCookies || len(value) > mostSecret {
				t.Errorf("%d cookies, %d bytes", n, len(value))
			}
			return true
		})
		if _, value, ok := givenCookie(given); ok && (len(value) < leastSecret || len(value) > mostSecret) {
			t.Errorf("a value of %d bytes", len(value))
		}
	})
}

// TestStandingConcurrently is for the race detector.
func TestStandingConcurrently(t *testing.T) {
	x := newStandingSite(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 200 {
				address := fmt.Sprintf("192.0.2.%d", i%5)
				x.ask(0, address, "/", nil, "Set-Cookie: "+cookie(i))
				x.ask(0, address, "/a.css", []string{"Cookie: " + cookie(i)})
				x.ask(0, fmt.Sprintf("192.0.2.%d", i%7), "/", []string{"Cookie: " + cookie(i%50)})
			}
			_, _ = x.s.AppendBinary(nil)
		})
	}
	all.Wait()
}

func BenchmarkStanding(b *testing.B) {
	c := classify.New(classify.Config{AddressHeader: classify.NoHeader, Classes: []classify.Class{{Name: "slash32", By: classify.Slash32}}})
	s := New([16]byte{1}, Config{Attested: 4, ClientClass: "slash32", SessionClass: "session"})
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	h := http.Header{"Content-Type": {"text/html"}}
	var res classify.Result
	var visit Visit
	c.Classify(r, &res)
	b.ReportAllocs()
	for b.Loop() {
		s.Assess(noon, r, &res, &visit)
		s.Answered(noon, r, &visit, http.StatusOK, h)
	}
}

// TestJudgeAllocates checks that judging allocates the ID of a session, and nothing else.
func TestJudgeAllocates(t *testing.T) {
	x := newStandingSite(t)
	x.ask(0, "192.0.2.1", "/", nil, "Set-Cookie: "+sid)
	x.ask(0, "192.0.2.1", "/", []string{"Cookie: " + sid})
	for what, c := range map[string]struct {
		change func(*http.Request)
		most   float64
	}{
		"a stranger":   {func(*http.Request) {}, 0},
		"a browser":    {func(r *http.Request) { r.Header.Set("User-Agent", chrome131) }, 0},
		"a part":       {func(r *http.Request) { r.URL.Path = "/a.css" }, 0},
		"a session":    {func(r *http.Request) { r.Header.Set("Cookie", sid) }, 1},
		"many cookies": {func(r *http.Request) { r.Header.Set("Cookie", strings.Repeat("a=0123456789abcdefg;", 100)) }, 0},
	} {
		r := pageRequest("192.0.2.1")
		c.change(r)
		var classified classify.Result
		x.c.Classify(r, &classified)
		if got := testing.AllocsPerRun(100, func() {
			res, visit := classified, Visit{}
			x.s.Assess(noon, r, &res, &visit)
		}); got > c.most {
			t.Errorf("%s: %v allocations, want %v", what, got, c.most)
		}
	}
}
