package errorpage

import (
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

func TestWish(t *testing.T) {
	for _, tc := range []struct {
		from   string
		accept []string
		want   Wish
	}{
		{"nothing", nil, Text},
		{"curl", []string{"*/*"}, Text},
		{"Firefox", []string{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"}, HTML},
		{"lynx", []string{"text/html, text/plain, text/sgml, text/css, application/xhtml+xml, */*;q=0.01"}, HTML},
		{"a picture", []string{"image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5"}, Text},
		{"a style sheet", []string{"text/css,*/*;q=0.1"}, Text},
		{"jQuery", []string{"application/json, text/javascript, */*; q=0.01"}, JSON},
		{"axios", []string{"application/json, text/plain, */*"}, JSON},
		{"an API client", []string{"application/json"}, JSON},
		{"problem details", []string{"application/problem+json, */*;q=0.1"}, JSON},
		{"a vendor's", []string{"application/vnd.github+json"}, JSON},
		{"a feed reader", []string{"application/atom+xml, application/rss+xml"}, Text},
		{"in capitals, after something else", []string{"text/css ,APPLICATION/JSON ;q=0.9", "text/html"}, JSON},
		{"JSON, rather than HTML", []string{"application/json,text/html;q=0.9"}, JSON},
		{"all of text", []string{"text/*"}, Text},
		{"all of application", []string{"application/*"}, Text},
		{"a name that only begins so", []string{"text/htmlx, application/jsonp"}, Text},
		{"a name that only ends so", []string{"application/json, x/json"}, JSON},
	} {
		testkit.Same(t, tc.want, WishOf(tc.accept), "%s: %q", tc.from, tc.accept)
	}
}

// TestLanguage chooses a page by Accept-Language twice: first by parsing, then from the cache.
func TestLanguage(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "error.html", "{{.Language}}")
	s := load(t, dir)
	for _, tc := range []struct{ asked, want string }{
		{"", "en"},
		{"*", "en"},
		{"de-AT", "de"},
		{"de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7", "de"},
		{"de;q=0.5, en;q=0.9", "en"},
		{"de;q=0, en;q=0.1", "en"},
		{"fr", "en"},
		{"<script>\x00", "en"},
		{strings.Repeat("-", 1200), "en"},
		{strings.Repeat("x", 200) + ",de", "en"},
		{"de," + strings.Repeat("fr,", 400), "de"}, // only the beginning of a long value is read
		{strings.Repeat("fr,", 400) + "de", "en"},
	} {
		for range 2 {
			p := s.Find("h", []string{tc.asked}, Busy)
			if got := string(p.AppendHTML(nil, usual())); got != tc.want || p.Language() != tc.want {
				t.Errorf("%s: got %s, want %s", tc.asked, got, tc.want)
			}
		}
	}
}

// TestPageCostsNothing: finding and filling a page allocates no memory if its language was requested before.
func TestPageCostsNothing(t *testing.T) {
	s, b, v := load(t, ""), make([]byte, 0, 4096), usual()
	asked, accept := []string{"de-DE,de;q=0.9,en;q=0.8"}, []string{"text/html,application/xhtml+xml,*/*;q=0.8"}
	if n := testing.AllocsPerRun(100, func() {
		if WishOf(accept) == HTML {
			b = s.Find("h", asked, DebtOfAddress).AppendHTML(b[:0], v)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
