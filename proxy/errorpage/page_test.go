package errorpage

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/text/language"
	"pgregory.net/rapid"

	"tempomat/internal/testkit"
)

var update = flag.Bool("update", false, "write the goldens instead of comparing with them")

func load(t *testing.T, o Options) *Set {
	t.Helper()
	if o.Languages == nil {
		o.Languages = []string{"en", "de"}
	}
	s, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func usual() *Values {
	return &Values{RequestID: "7b3e0a42", Client: "192.0.2.1", RetryAfter: 75}
}

// TestShippedPages holds all pages that are shipped to the goldens, and to what any page has to be.
func TestShippedPages(t *testing.T) {
	s := load(t, Options{})
	for _, in := range []string{"en", "de"} {
		var all bytes.Buffer
		for c := range Cause(causes) {
			p := s.Find("site.example", []string{in}, c)
			v := usual()
			if !c.waits() {
				v.RetryAfter = 0
			}
			text := p.Append(nil, v)
			if p.Language() != in {
				t.Errorf("%s in %s is in %s", c, in, p.Language())
			}
			checkPage(t, string(text), in, c)
			fmt.Fprintf(&all, "== %s\n%s", c, text)
		}
		testkit.Golden(t, *update, filepath.Join("testdata", in+".golden"), all.String())
	}
}

// checkPage checks that a page is whole, sound, small and loads nothing.
func checkPage(t *testing.T, text, in string, c Cause) {
	t.Helper()
	if len(text) > 2048 || !utf8.ValidString(text) || strings.Contains(text, "Q7") {
		t.Errorf("%s in %s: %d bytes: %s", c, in, len(text), text)
	}
	wants := []string{"<!doctype html>", `<meta charset="utf-8">`, "7b3e0a42", fmt.Sprint(c.Status())}
	if c.namesClient() {
		wants = append(wants, "192.0.2.1")
	}
	if c.waits() {
		wants = append(wants, map[string]string{"en": "in 75 seconds", "de": "in 75 Sekunden"}[in])
	}
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%s in %s: %q is not in %s", c, in, want, text)
		}
	}
	seen := elements(t, text)
	for name, n := range map[string]int{"html": 1, "head": 1, "title": 1, "body": 1, "main": 1, "h1": 1} {
		if seen[name] != n {
			t.Errorf("%s in %s: %d of %s", c, in, seen[name], name)
		}
	}
	for _, name := range []string{"script", "link", "img", "iframe", "object", "form", "a", "base"} {
		if seen[name] != 0 {
			t.Errorf("%s in %s has %s", c, in, name)
		}
	}
}

// elements counts the elements of a page, none of which may load or run anything.
func elements(t *testing.T, text string) map[string]int {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for n := range root.Descendants() {
		if n.Type == html.ElementNode {
			seen[n.Data]++
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "href" || a.Key == "style" {
				t.Errorf("attribute %s of %s in %s", a.Key, n.Data, text)
			}
		}
	}
	var again strings.Builder
	if err := html.Render(&again, root); err != nil {
		t.Fatal(err)
	}
	spelt := strings.NewReplacer("<!DOCTYPE", "<!doctype", "/>", ">", "\n", "")
	if spelt.Replace(again.String()) != spelt.Replace(text) {
		t.Errorf("an element does not end where it may: %s\nis read as %s", text, &again)
	}
	return seen
}

// TestTexts: each language says of each cause what happened and what can be done, and nothing else.
func TestTexts(t *testing.T) {
	entries, err := shipped.ReadDir("texts")
	if err != nil || len(entries) < 2 {
		t.Fatalf("%d languages, %v", len(entries), err)
	}
	for _, e := range entries {
		raw, err := shipped.ReadFile("texts/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		in := new(texts)
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(in); err != nil {
			t.Fatalf("%s: %v", e.Name(), err)
		}
		if in.Request == "" || len(in.Causes) != causes {
			t.Errorf("%s: %+v", e.Name(), in)
		}
		for c := range Cause(causes) {
			says := in.Causes[c.String()]
			if says.Title == "" || says.What == "" || says.Todo == "" || strings.Contains(says.What, "{client}") != c.namesClient() ||
				strings.Contains(says.Todo, "{wait}") != c.waits() ||
				strings.ContainsAny(strings.NewReplacer("{client}", "", "{wait}", "").Replace(says.Title+says.What+says.Todo), "{}<>&\"'") {
				t.Errorf("%s, %s: %+v", e.Name(), c, says)
			}
		}
	}
}

func TestWait(t *testing.T) {
	for _, tc := range []struct {
		seconds      int
		en, de, none string
	}{
		{1, "1 second", "1 Sekunde", "1 s"}, {2, "2 seconds", "2 Sekunden", "2 s"}, {90, "90 seconds", "90 Sekunden", "90 s"},
		{91, "2 minutes", "2 Minuten", "2 min"}, {120, "2 minutes", "2 Minuten", "2 min"}, {121, "3 minutes", "3 Minuten", "3 min"},
		{5400, "90 minutes", "90 Minuten", "90 min"}, {5401, "2 hours", "2 Stunden", "2 h"}, {86400, "24 hours", "24 Stunden", "24 h"},
	} {
		for want, in := range map[string]language.Tag{tc.en: language.English, tc.de: language.German, tc.none: language.French} {
			units, _, err := textsIn(in)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(units.appendWait(nil, tc.seconds)); got != want {
				t.Errorf("%d s: %q, want %q", tc.seconds, got, want)
			}
		}
	}
}

// everywhere puts the holes wherever a template may have them.
const everywhere = `<!doctype html><html lang="{{.Language}}"><head><title>{{.RequestID}}</title>
<style>p{content:"{{.RequestID}}"}</style><script>var id = {{.RequestID}}, s = "{{.Address}}", r = {{.RetryAfter}};</script></head>
<body title="{{.RequestID}}" data-x={{.RequestID}}><p onclick="f({{.RequestID}})">{{.What}} {{.Address}} {{.Wait}}</p>
<a href="/ask?id={{.RequestID}}&amp;a={{.Address}}">{{if .Address}}yes{{else}}no{{end}}</a><textarea>{{.RequestID}}</textarea><!-- {{.RequestID}} --></body></html>`

// TestNothingGetsOut: whatever the values are, the page is the same but for texts.
func TestNothingGetsOut(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "error.html", everywhere)
	s := load(t, Options{Directory: dir})
	plain := shape(t, s.Find("h", nil, DebtOfAddress).Append(nil, usual()))
	evil := rapid.OneOf(
		rapid.String(), rapid.StringMatching(`[a-zA-Z0-9<>"'&;:/=+@._{}\\()\x60 -]{0,70}`),
		rapid.SampledFrom([]string{
			"</title><script>alert(1)</script>", `"onmouseover="alert(1)`, "';alert(1)//", "javascript:alert(1)", "{{.RequestID}}",
			"Q7tempomatClientQ7", "--><b>", "\r\nSet-Cookie: a=b", "\u202egnp.exe", "\x00", "]]>", "*/}body{}", strings.Repeat("a", 65),
		}))
	rapid.Check(t, func(t *rapid.T) {
		v := &Values{RequestID: evil.Draw(t, "id"), Client: evil.Draw(t, "client"), RetryAfter: rapid.IntRange(1, 1e6).Draw(t, "after")}
		text := s.Find("h", nil, DebtOfAddress).Append(nil, v)
		if got := shape(t, text); got != plain {
			t.Fatalf("got %s\nof %s", got, text)
		}
	})
}

// shape is the elements and attributes of a page, without any text or value.
func shape(t interface{ Fatal(args ...any) }, text []byte) string {
	root, err := html.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for n := range root.Descendants() {
		if n.Type == html.TextNode {
			continue
		}
		fmt.Fprintf(&out, "%d", n.Type)
		if n.Type == html.ElementNode {
			out.WriteString(n.Data)
		}
		for _, a := range n.Attr {
			out.WriteString(" " + a.Key)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
