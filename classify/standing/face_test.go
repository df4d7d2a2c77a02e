package standing

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	chrome131 = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36"
	accepts   = "Accept: text/html"
)

// TestFaces checks that User-Agents tell people behind one address apart, the same
// way each time, and by a secret.
func TestFaces(t *testing.T) {
	x := newStandingSite(t)
	other, err := New([16]byte{2}, Config{ClientClass: "slash32", SessionClass: "session"})
	if err != nil {
		t.Fatal(err)
	}
	var seen [faces]int
	differ := 0
	for i := range 800 {
		agent := fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64; rv:%d.0) Gecko/20100101 Firefox/%d.0", i, i)
		first := x.ask(0, "192.0.2.1", "/", []string{"User-Agent: " + agent}).Face
		if again := x.ask(0, "192.0.2.9", "/page", []string{"User-Agent: " + agent}).Face; again != first {
			t.Fatalf("%s has face %d, and then %d", agent, first, again)
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
		t.Errorf("with another secret only %d of 800 have another face", differ)
	}
	if long := strings.Repeat("x", longestAgent); x.s.face([]string{long}) != x.s.face([]string{long + "y"}) {
		t.Error("what is beyond the longest User-Agent makes a difference")
	}
	x.ask(0, "192.0.2.1", "/", nil, "Set-Cookie: "+sid)
	for i := range 20 { // a session has none
		if res := x.ask(0, "192.0.2.1", "/", []string{"Cookie: " + sid, fmt.Sprintf("User-Agent: a%d", i)}); res.Face != 0 {
			t.Errorf("a session has face %d", res.Face)
		}
	}
}

// TestFollows checks which parts are those of the page that was just served.
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
		if res := x.ask(c.after, "192.0.2.1", c.path, c.headers); res.Follows != c.want {
			t.Errorf("%s: it follows: %v", name, res.Follows)
		}
		if x.ask(c.after, "192.0.2.2", c.path, c.headers).Follows {
			t.Errorf("%s: it follows somebody else's page", name)
		}
	}
}

// TestFollowersAreBounded checks how many parts a page has, and that a session's first
// ones follow the page that it was given with.
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
	if n := parts(time.Second); n != followPage {
		t.Errorf("%d parts of one page", n)
	}
	for range 100 {
		x.ask(2*time.Second, "192.0.2.1", "/", nil)
	}
	if n := parts(3 * time.Second); n != followMost {
		t.Errorf("%d parts of a hundred pages", n)
	}
	x.ask(time.Minute, "192.0.2.1", "/", nil)
	x.ask(2*time.Minute, "192.0.2.1", "/", nil, "Set-Cookie: "+sid)
	if n := parts(2*time.Minute, "Cookie: "+sid); n != followPage {
		t.Errorf("%d parts of the page that a session was given with", n)
	}
}

// TestPagesAskedForAsParts: who asks for all pages as if they were parts, many at once, has as many of them go first as it asks
// for pages; and a browser that finds a page in place of an icon has its next page's parts follow all the same.
func TestPagesAskedForAsParts(t *testing.T) {
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
		t.Errorf("%d of 100 pages, %d of 1000 by many at once go first", one, many)
	}
	x.ask(0, "192.0.2.2", "/", nil)
	x.ask(0, "192.0.2.2", "/favicon.ico", image)
	x.ask(time.Minute, "192.0.2.2", "/", nil)
	if !x.ask(time.Minute, "192.0.2.2", "/a.css", nil).Follows {
		t.Error("a person's part does not follow its page")
	}
}
