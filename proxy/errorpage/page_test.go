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

	"tempomat/internal/testkit"
)

var update = flag.Bool("update", false, "write the goldens instead of comparing with them")

func load(t *testing.T, dir string) *Set {
	t.Helper()
	s, err := Load(dir)
	testkit.Must(t, err)
	return s
}

func usual() *Values {
	return &Values{RequestID: "7b3e0a42", Client: "192.0.2.1", RetryAfter: 75}
}

// TestShippedPages compares all shipped pages with the golden files, and checks the requirements of every page.
func TestShippedPages(t *testing.T) {
	s := load(t, "")
	for _, in := range []string{"en", "de"} {
		var all bytes.Buffer
		for c := range Cause(causes) {
			p := s.Find("site.example", []string{in}, c)
			v := usual()
			if !c.waits() {
				v.RetryAfter = 0
			}
			text := p.AppendHTML(nil, v)
			testkit.Same(t, in, p.Language(), "%s in %s: language", c, in)
			checkPage(t, string(text), in, c)
			fmt.Fprintf(&all, "== %s\n%s", c, text)
		}
		testkit.Golden(t, *update, filepath.Join("testdata", in+".golden"), all.String())
	}
}

// checkPage checks that a page is complete, valid and small, and loads no other files.
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
		testkit.Same(t, n, seen[name], "%s in %s: number of %s", c, in, name)
	}
	for _, name := range []string{"script", "link", "img", "iframe", "object", "form", "a", "base"} {
		testkit.Same(t, 0, seen[name], "%s in %s: number of %s", c, in, name)
	}
}

// elements counts the elements of a page, none of which may load or run anything.
func elements(t *testing.T, text string) map[string]int {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	testkit.Must(t, err)
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
	testkit.Must(t, html.Render(&again, root))
	spelt := strings.NewReplacer("<!DOCTYPE", "<!doctype", "/>", ">", "\n", "")
	if spelt.Replace(again.String()) != spelt.Replace(text) {
		t.Errorf("an element does not end where it may: %s\nis read as %s", text, &again)
	}
	return seen
}

// TestTexts: for each cause, the texts of each language say what happened and what to do, and nothing else.
func TestTexts(t *testing.T) {
	entries, err := shipped.ReadDir("texts")
	if err != nil || len(entries) < 2 {
		t.Fatalf("%d languages, %v", len(entries), err)
	}
	for _, e := range entries {
		raw, err := shipped.ReadFile("texts/" + e.Name())
		testkit.Must(t, err)
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
	dialects, err := readDialects()
	testkit.Must(t, err)
	for seconds, want := range map[int]string{
		1: "1 second", 2: "2 seconds", 90: "90 seconds", 91: "2 minutes", 120: "2 minutes", 121: "3 minutes",
		5400: "90 minutes", 5401: "2 hours", 86400: "24 hours",
	} {
		testkit.Same(t, want, string(dialects[0].texts.appendWait(nil, seconds)), "%d s", seconds)
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
}
