package errorpage

import (
	"strings"
	"sync"
	"testing"

	"golang.org/x/text/language"
	"pgregory.net/rapid"
)

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

// TestLanguageIsRemembered: what is remembered is what would be read, also where many ask
// at once for what lies at the same places; and it costs nothing.
func TestLanguageIsRemembered(t *testing.T) {
	tags := []language.Tag{language.English, language.German}
	l := newLanguages(tags)
	asked := make([]string, 4*remembered)
	want := make([]int, len(asked))
	for i := range asked {
		q := string(rune('0'+i%10)) + string(rune('0'+i/10%10)) + string(rune('0'+i/100%10))
		asked[i] = "de;q=0." + q + ",en;q=0.500" + strings.Repeat(",fr;q=0.1", i/1000)
		want[i] = newLanguages(tags).choose(asked[i])
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range asked {
				if got := l.choose(asked[i]); got != want[i] {
					t.Errorf("%s: got %d, want %d", asked[i], got, want[i])
				}
			}
		})
	}
	all.Wait()
	if n := testing.AllocsPerRun(100, func() { l.choose(asked[0]) }); n != 0 {
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
