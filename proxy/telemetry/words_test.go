package telemetry

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/classify"
	"tempomat/internal/testkit"
)

// teach records a request from a known client's address, unless change makes it another kind of client.
func teach(w *Words, address byte, target string, change func(*Record)) {
	path, _, _ := strings.Cut(target, "?")
	r := Record{
		Request: &http.Request{Host: "h", RequestURI: target}, Group: Known, Status: 200,
		Who: &classify.Result{Client: netip.AddrFrom4([4]byte{192, 0, 2, address}), Shape: path + "?x"},
	}
	if change != nil {
		change(&r)
	}
	now := time.Unix(1_000_000, 0)
	var e Entry
	e.Set(now, &r)
	w.Take(now, &Batch{Entries: []Entry{e}})
}

// TestWords: earlier requests determine which parts of a query are shown.
func TestWords(t *testing.T) {
	people := func(n int, target func(i int) string, change func(*Record)) func(*Words) {
		return func(w *Words) {
			for i := range n {
				teach(w, byte(i%5), target(i), change)
			}
		}
	}
	actions := func(i int) string {
		return "/w?title=Page_" + fmt.Sprint(i) + "&action=" + []string{"view", "history", "edit"}[i%3]
	}
	for _, c := range []struct {
		name        string
		before      func(*Words)
		query, want string
	}{
		{"nothing is known", func(*Words) {}, "title=A&action=history", "*&*"},
		{"a word of the site", people(200, actions, nil), "title=Secret&action=history", "title=*&action=history"},
		{"a value that people never gave", people(200, actions, nil), "action=raw&title=A", "action=*&title=*"},
		{"a name that people never gave", people(200, actions, nil), "alice@example.org&action=view", "*&action=view"},
		{"separated by ;", people(200, actions, nil), "action=view;title=A", "action=view&title=*"},
		{"few requests", people(30, actions, nil), "action=view", "action=*"},
		{"another path", people(200, func(i int) string { return strings.Replace(actions(i), "/w", "/v", 1) }, nil), "action=view", "*"},
		{"strangers teach nothing", people(200, actions, func(r *Record) { r.Group = Stranger }), "action=view", "*"},
		{"nor do robots", people(200, actions, func(r *Record) { r.Group = Robot }), "action=view", "*"},
		{"nor what is not found", people(200, actions, func(r *Record) { r.Status = 404 }), "action=view", "*"},
		{"one address alone", func(w *Words) {
			for i := range 200 {
				teach(w, 1, actions(i), nil)
			}
		}, "action=view", "*"},
		{"a search that many make", people(400, func(i int) string {
			if i%2 == 0 {
				return "/w?q=weather"
			}
			return "/w?q=" + strings.Repeat("a", i%40)
		}, nil), "q=weather", "q=*"},
		{"a person's value of a known parameter", func(w *Words) {
			people(200, actions, nil)(w)
			teach(w, 9, "/w?action=herpes", nil)
		}, "action=herpes", "action=*"},
		{"no word", people(200, func(i int) string { return "/w?action=7" }, nil), "action=7", "action=*"},
		{"no value", people(200, func(i int) string { return "/w?edit" }, nil), "edit", "edit"},
		{"too many parameters", people(200, actions, nil), strings.Repeat("action=view&", 9), strings.Repeat("action=view&", 8) + "…"},
	} {
		w := NewWords()
		c.before(w)
		testkit.Same(t, c.want, w.Reduce("/w?x", c.query), "%s: %s is shown as", c.name, c.query)
	}
}

// TestWordsShowNothingElse: every value that is shown was used by several clients.
func TestWordsShowNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, given := NewWords(), map[string]map[byte]bool{}
		value := rapid.OneOf(rapid.SampledFrom([]string{"view", "edit", "Raw", "5", "%41", "x y"}), rapid.StringMatching(`[a-z]{1,3}`))
		for range rapid.IntRange(0, 300).Draw(t, "requests") {
			from, v := byte(rapid.IntRange(0, 6).Draw(t, "address")), value.Draw(t, "value")
			if given[v] == nil {
				given[v] = map[byte]bool{}
			}
			given[v][from] = true
			teach(w, from, "/w?a="+v, nil)
		}
		query := value.Draw(t, "asked")
		got := w.Reduce("/w?x", "a="+query)
		if shown := got == "a="+query; shown && (len(given[query]) < fewAddresses || !isWord(query) || len(given) > mostValues) {
			t.Fatalf("%q is shown, given by %d of %d values", query, len(given[query]), len(given))
		} else if !shown && got != "a=*" && got != "*" {
			t.Fatalf("%q is shown as %q", query, got)
		}
	})
}

// TestWordsAreBounded: the number of parameters is limited, and unused ones are forgotten.
func TestWordsAreBounded(t *testing.T) {
	w := NewWords()
	for i := range 3 * mostParameters {
		teach(w, 1, fmt.Sprint("/w?p", i, "=1"), nil)
	}
	testkit.Same(t, mostParameters, len(w.parameters), "parameters")
	for i := range 5 * enough { // one client's names don't prevent learning from others
		teach(w, byte(i%5), "/w?action=view", nil)
		teach(w, 1, fmt.Sprint("/w?q", i, "=1"), nil)
	}
	testkit.Same(t, "action=view", w.Reduce("/w?x", "action=view"), "names that one client makes up have hidden all")
	for i := range 3 * mostPaths {
		teach(w, 1, fmt.Sprint("/", i), nil)
	}
	if n := w.paths.Len(); n > mostPaths {
		t.Errorf("%d paths", n)
	}
	teach(w, 1, "/w?"+strings.Repeat("a=1&", 100), nil) // the target is cut, so nothing is learnt from it
	if w.parameters[parameterName{"/w", "a"}] != nil {
		t.Error("learnt from a part")
	}
	w.Take(time.Unix(1_000_000, 0).Add(forgotten+2*time.Hour), new(Batch))
	testkit.Same(t, 0, len(w.parameters), "parameters a day later")
}

// TestURLs: targets that known clients at three addresses requested are shown in full, unless they look like secrets.
func TestURLs(t *testing.T) {
	const page = "/w/index.php?title=Main_Page&action=history"
	long := "/" + strings.Repeat("words/", 18)
	for _, c := range []struct {
		name, target string
		addresses    int // number of addresses that requested it before
		want         string
	}{
		{"two addresses", page, 2, "/the/shape?*&*"},
		{"three addresses", page, 3, "/w/index.php?title=*&action=history"},
		{"a path alone", "/wiki/Berlin", 3, "/wiki/Berlin"},
		{"a token in the path", "/reset/3f9a77c0de11", 3, "/the/shape"},
		{"an address of mail", "/news/a@example.org", 3, "/the/shape"},
		{"an encoded one", "/news/a%40example.org", 3, "/the/shape"},
		{"a number of a telephone", "/call/00493012345678", 3, "/the/shape"},
		{"a path that is cut off", "/" + strings.Repeat("x", mostText-1), 3, "/the/shape"},
		{"another form", "http://user:pass@host/a", 3, "/the/shape"},
		{"a question mark alone", "/x?", 3, "/x"},
		{"long", long + "?" + strings.Repeat("action=history&", 8), 3, (long + "?" + strings.Repeat("action=history&", 8))[:longestURL-1] + "*"},
	} {
		w := NewWords()
		shape := func(r *Record) { r.Who.Shape = "/the/shape?names" }
		for i := range 100 {
			target := c.target
			if title := strings.Replace(target, "Main_Page", fmt.Sprint("Page_", i), 1); i >= 10 {
				target = title
			}
			teach(w, byte(i%c.addresses), target, shape)
		}
		testkit.Same(t, c.want, w.URL("/the/shape?names", c.target), "%s", c.name)
	}
}
