package standing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tempomat/classify"
	"tempomat/internal/testkit"
)

const (
	chrome131 = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
	accepts   = "Accept: text/html"
)

// TestFaces checks that User-Agents distinguish people behind one address, always in the same way, and depending
// on a secret.
func TestFaces(t *testing.T) {
	x := newStandingSite(t)
	other := New([16]byte{2}, Config{ClientClass: "slash32", SessionClass: "session"})
	var seen [faces]int
	differ := 0
	for i := range 800 {
		agent := fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64; rv:%d.0) Gecko/20100101 Firefox/%d.0", i, i)
		first := x.ask(0, "192.0.2.1", "/", []string{"User-Agent: " + agent}).Face
		if again := x.ask(0, "192.0.2.9", "/page", []string{"User-Agent: " + agent}).Face; again != first {
			t.Fatalf("%s has face %d, then %d", agent, first, again)
		}
		if first >= faces {
			t.Fatalf("%s has face %d", agent, first)
		}
		seen[first]++
		if other.face([]string{agent}) != first {
			differ++
		}
	}
	for face, n := range seen {
		if n < 60 || n > 140 {
			t.Errorf("%d of 800 User-Agents have face %d", n, face)
		}
	}
	if differ < 600 {
		t.Errorf("with another secret, only %d of 800 faces change", differ)
	}
	if long := strings.Repeat("x", classify.MaxAgentBytes); x.s.face([]string{long}) != x.s.face([]string{long + "y"}) {
		t.Error("bytes beyond the longest User-Agent make a difference")
	}
	x.ask(0, "192.0.2.1", "/", nil, "Set-Cookie: "+sid)
	for i := range 20 { // a session has no face
		testkit.Same(t, 0, x.ask(0, "192.0.2.1", "/", []string{"Cookie: " + sid, fmt.Sprintf("User-Agent: a%d", i)}).Face, "face of a session")
	}
}

// TestFollows checks which parts belong to the page that was just served.
func TestFollows(t *testing.T) {
	for name, c := range map[string]struct {
		path    string
		headers []string
		after   time.Duration
		want    bool
	}{
		"a style sheet":               {"/a.css", nil, time.Second, true},
		"a little later":              {"/a.css", nil, 20 * time.Second, true},
		"too late":                    {"/a.css", nil, 21 * time.Second, false},
		"by what it is for":           {"/a", []string{"Sec-Fetch-Dest: image", "Sec-Fetch-Site: same-origin"}, 0, true},
		"a sibling site's":            {"/a", []string{"Sec-Fetch-Dest: image", "Sec-Fetch-Site: same-site"}, 0, true},
		"of no site":                  {"/a.css", []string{"Referer: example.com/page"}, 0, false},
		"another site's":              {"/a", []string{"Sec-Fetch-Dest: image", "Sec-Fetch-Site: cross-site"}, 0, false},
		"MediaWiki's":                 {"/w/load.php?modules=startup&only=scripts", nil, time.Second, true},
		"WordPress's":                 {"/wp-admin/load-styles.php?c=0", nil, time.Second, true},
		"another program":             {"/upload.php", nil, time.Second, false},
		"a directory of that name":    {"/load.php/x", nil, time.Second, false},
		"what wants a style sheet":    {"/theme?v=1", []string{"Accept: text/css,*/*;q=0.1"}, time.Second, true},
		"what also takes one":         {"/theme?v=1", []string{"Accept: text/html,text/css"}, time.Second, false},
		"a page":                      {"/page", nil, time.Second, false},
		"a page of that name, opened": {"/a.css", []string{"Sec-Fetch-Dest: document"}, time.Second, false},
	} {
		x := newStandingSite(t)
		if x.ask(0, "192.0.2.1", c.path, c.headers).Follows {
			t.Errorf("%s: it follows nothing", name)
		}
		x = newStandingSite(t)
		x.ask(0, "192.0.2.1", "/", nil)
		testkit.Same(t, c.want, x.ask(c.after, "192.0.2.1", c.path, c.headers).Follows, "%s: follows", name)
		if x.ask(c.after, "192.0.2.2", c.path, c.headers).Follows {
			t.Errorf("%s: the part follows another client's page", name)
		}
	}
}

// TestFollowersAreBounded checks how many parts a page has, and that a session's first parts follow the page
// with which it got its cookie.
func TestFollowersAreBounded(t *testing.T) {
	x := newStandingSite(t)
	parts := func(at time.Duration, headers ...string) (n int) {
		for range 1000 {
			if x.ask(at, "192.0.2.1", "/a.css", headers).Follows {
				n++
			}
		}
		return n
	}
	x.ask(0, "192.0.2.1", "/", nil)
	testkit.Same(t, followPage, parts(time.Second), "parts that follow one page")
	for range 100 {
		x.ask(2*time.Second, "192.0.2.1", "/", nil)
	}
	testkit.Same(t, followMost, parts(3*time.Second), "parts that follow a hundred pages")
	x.ask(time.Minute, "192.0.2.1", "/", nil)
	x.ask(2*time.Minute, "192.0.2.1", "/", nil, "Set-Cookie: "+sid)
	testkit.Same(t, followPage, parts(2*time.Minute, "Cookie: "+sid), "parts that follow the page that brought the session's cookie")
}

// TestPagesRequestedAsParts: if a client requests all its pages as if they were parts, many at once, no more of these
// requests go first than the number of pages it requested normally. If a browser gets a page instead of an icon, the
// parts of its next page still follow that page.
func TestPagesRequestedAsParts(t *testing.T) {
	x := newStandingSite(t)
	image := []string{"Sec-Fetch-Dest: image"}
	one := 0
	for i := range 100 {
		at := time.Duration(i) * time.Second
		x.ask(at, "192.0.2.1", "/", nil)
		for range followPage {
			if x.ask(at, "192.0.2.1", "/page", image).Follows {
				one++
			}
		}
	}
	many := 0
	var v visitor
	for second := range int64(1000) {
		v.page(second+1, false)
		asked := 0
		for v.follow(second + 1) {
			asked++
		}
		for range asked {
			v.page(second+1, true)
		}
		many += asked
	}
	if one > 100 || many > 1100 {
		t.Errorf("%d parts of 100 pages and %d parts of 1000 bursts go first", one, many)
	}
	x.ask(0, "192.0.2.2", "/", nil)
	x.ask(0, "192.0.2.2", "/favicon.ico", image)
	x.ask(time.Minute, "192.0.2.2", "/", nil)
	if !x.ask(time.Minute, "192.0.2.2", "/a.css", nil).Follows {
		t.Error("a person's part does not follow its page")
	}
}
