package errorpage

import (
	"strings"
	"testing"

	"golang.org/x/text/language"
	"pgregory.net/rapid"
)

func TestWish(t *testing.T) {
	for _, tc := range []struct {
		from   string
		accept []string
		want   Wish
	}{
		{"nothing", nil, Text},
		{"an empty line", []string{""}, Text},
		{"curl", []string{"*/*"}, Text},
		{"wget", []string{"*/*"}, Text},
		{"Firefox", []string{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"}, HTML},
		{"Chromium", []string{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7"}, HTML},
		{"Safari", []string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, HTML},
		{"lynx", []string{"text/html, text/plain, text/sgml, text/css, application/xhtml+xml, */*;q=0.01"}, HTML},
		{"a picture", []string{"image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5"}, Text},
		{"a style sheet", []string{"text/css,*/*;q=0.1"}, Text},
		{"jQuery", []string{"application/json, text/javascript, */*; q=0.01"}, JSON},
		{"axios", []string{"application/json, text/plain, */*"}, JSON},
		{"an API client", []string{"application/json"}, JSON},
		{"problem details", []string{"application/problem+json, */*;q=0.1"}, JSON},
		{"a vendor's", []string{"application/vnd.github+json"}, JSON},
		{"linked data", []string{"application/ld+json;profile=\"x\""}, JSON},
		{"in capitals", []string{"APPLICATION/JSON"}, JSON},
		{"a feed reader", []string{"application/atom+xml, application/rss+xml"}, Text},
		{"HTML, rather than JSON", []string{"text/html,application/json;q=0.9"}, HTML},
		{"JSON, rather than HTML", []string{"application/json,text/html;q=0.9"}, JSON},
		{"both alike", []string{"application/json, text/html"}, HTML},
		{"both alike, in two lines", []string{"application/json", "text/html"}, HTML},
		{"text, rather than HTML", []string{"text/plain, text/html;q=0.5"}, Text},
		{"no HTML", []string{"text/html;q=0"}, Text},
		{"no HTML, but JSON", []string{"text/html;q=0.0, application/json;q=0.001"}, JSON},
		{"a weight after another parameter", []string{"text/html;level=1;q=0.2, application/json;q=0.3"}, JSON},
		{"a weight with spaces and capitals", []string{"text/html ; Q=0.2, application/json; q=0.3"}, JSON},
		{"a weight that is none", []string{"text/html;q=NaN, application/json;q=2, text/html;q=-1, text/html;q=x"}, Text},
		{"all of text", []string{"text/*"}, Text},
		{"all of application", []string{"application/*"}, Text},
		{"a name that only begins so", []string{"text/htmlx, application/jsonp"}, Text},
		{"a name that only ends so", []string{"application/json, x/json"}, JSON},
		{"json alone", []string{"json"}, Text},
		{"no name", []string{";q=1,,/,application/,application/json+"}, Text},
		{"markup", []string{"<script>alert(1)</script>, text/html\x00"}, Text},
	} {
		if got := WishOf(tc.accept); got != tc.want {
			t.Errorf("%s: %q: got %d, want %d", tc.from, tc.accept, got, tc.want)
		}
	}
}

// TestWishOfAnything: nothing that a client sends makes it panic, nor allocate, and who does
// not name HTML gets none.
func TestWishOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		accept := rapid.SliceOfN(rapid.StringMatching(`([a-z*]{0,6}/?[a-z+*]{0,6}(;q=[0-9.]{0,4})?[, ]{0,2}){0,5}`), 0, 3).Draw(t, "accept")
		w := WishOf(accept)
		if named := strings.Contains(strings.Join(accept, ","), "html"); w == HTML && !named {
			t.Fatalf("%q got a page", accept)
		}
	})
	lines := []string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
	if n := testing.AllocsPerRun(100, func() { WishOf(lines) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLanguage(t *testing.T) {
	choosers := map[string]*languages{}
	for _, offered := range []string{"en de", "de en", "en", "en de fr pt-BR zh-Hant"} {
		var tags []language.Tag
		for name := range strings.FieldsSeq(offered) {
			tags = append(tags, language.MustParse(name))
		}
		choosers[offered] = newLanguages(tags)
	}
	for _, tc := range []struct{ offered, asked, want string }{
		{"en de", "", "en"},
		{"de en", "", "de"},
		{"en de", "*", "en"},
		{"en de", "de", "de"},
		{"en de", "DE", "de"},
		{"en de", "de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7", "de"},
		{"en de", "de-AT", "de"},
		{"en de", "de-CH-1996", "de"},
		{"en de", "gsw,fr;q=0.8", "de"}, // who reads Swiss German reads German
		{"en de", "en-GB,en;q=0.5", "en"},
		{"de en", "en-GB,en;q=0.5", "en"},
		{"en de", "en;q=0.5, de;q=0.9", "de"},
		{"en de", "de;q=0.5, en;q=0.9", "en"},
		{"en de", "de;q=0, en;q=0.1", "en"},
		{"en de", "fr, de;q=0.3", "de"},
		{"en de", "fr", "en"},
		{"de en", "fr", "de"},
		{"en", "de", "en"},
		{"en de fr pt-BR zh-Hant", "fr-CA", "fr"},
		{"en de fr pt-BR zh-Hant", "pt", "pt-BR"},
		{"en de fr pt-BR zh-Hant", "zh-TW", "zh-Hant"},
		{"en de", "<script>", "en"},
		{"en de", "de\x00", "en"},
		{"en de", strings.Repeat("-", 1200), "en"},
		{"en de", strings.Repeat("x", 200) + ",de", "en"},
		{"en de", "de," + strings.Repeat("fr,", 400), "de"}, // what is too long is not read to its end
		{"de en", strings.Repeat("fr,", 400) + "en", "de"},
		{"de en", "fr,nl,da,sv,it,en", "en"},
		{"de en", "fr,nl,da,sv,it,es,en", "de"}, // the seventh
		{"de en", ",,,,,,en", "de"},
	} {
		l := choosers[tc.offered]
		for range 2 { // read, and remembered
			if got := strings.Fields(tc.offered)[l.choose(tc.asked)]; got != tc.want {
				t.Errorf("%s of %s: got %s, want %s", tc.asked, tc.offered, got, tc.want)
			}
		}
	}
}

// TestLanguageCostsNothing: what was chosen before is remembered.
func TestLanguageCostsNothing(t *testing.T) {
	l := newLanguages([]language.Tag{language.English, language.German})
	if n := testing.AllocsPerRun(100, func() { l.choose("de-DE,de;q=0.9,en;q=0.8") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLanguageOfAnything(t *testing.T) {
	l := newLanguages([]language.Tag{language.English, language.German})
	rapid.Check(t, func(t *rapid.T) {
		if i := l.choose(rapid.String().Draw(t, "asked")); i < 0 || i > 1 {
			t.Fatalf("got %d", i)
		}
	})
}
