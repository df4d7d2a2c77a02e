package errorpage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhichPage: a host's own page before that for all hosts; conditions tell statuses and
// languages apart; and a language without shipped texts has those in English.
func TestWhichPage(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "error.html", `{{if eq .Status 502}}down {{else if eq .Language "fr"}}pardon {{end}}{{.Language}} {{.Status}} {{.Cause}} {{.Wait}}`)
	write(t, dir, "wiki.example.html", "wiki {{.Language}} {{.Title}}")
	if err := os.Symlink("wiki.example.html", filepath.Join(dir, "www.wiki.example.html")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, ".error.html.swp", "an editor's")
	write(t, dir, "error.html~", "an editor's")
	s := load(t, Options{Directory: dir, Languages: []string{"en", "de", "fr"}})
	for _, tc := range []struct {
		host, asked string
		cause       Cause
		want        string
	}{
		{"h", "en", Unsound, "en 400 unsound "},
		{"h", "fr", Unsound, "pardon fr 400 unsound "},
		{"h", "en", DebtOfNetwork, "en 429 debt-of-network 5 seconds"},
		{"h", "de", OverLimit, "de 429 over-limit 5 Sekunden"},
		{"h", "fr", OverLimit, "pardon fr 429 over-limit 5 s"},
		{"h", "nl", BackendDown, "down en 502 backend-down "},
		{"wiki.example", "en", WrongMethod, "wiki en This is not possible here"},
		{"WIKI.example.:8080", "de", WrongMethod, "wiki de Das geht hier nicht"},
		{"www.wiki.example", "fr", WrongMethod, "wiki fr This is not possible here"},
		{"../wiki.example", "en", Unsound, "en 400 unsound "},
		{"[2001:db8::1]:80", "en", Unsound, "en 400 unsound "},
		{"", "en", Unsound, "en 400 unsound "},
	} {
		v := &Values{RetryAfter: 5}
		if got := string(s.Find(tc.host, []string{tc.asked}, tc.cause).Append(nil, v)); got != tc.want {
			t.Errorf("%s in %s for %s: %q, want %q", tc.cause, tc.asked, tc.host, got, tc.want)
		}
	}
}

// TestFaults: each file that is no good is named, with its line.
func TestFaults(t *testing.T) {
	long := strings.Repeat("x", longestPage+1)
	for _, tc := range []struct{ name, text, want string }{
		{"error.html", "a\nb {{.Nothing}}\n", "error.html:2: executing"},
		{"error.html", "a\n\n{{if}}\n", "error.html:3: missing value for if"},
		{"error.html", "a\n{{end}}", "error.html:2: unexpected {{end}}"},
		{"error.html", "{{.Title", "error.html:1: unclosed action"},
		{"error.html", "\n<a href='{{if .What}}'{{end}}>x</a>", "error.html:2: {{if}} branches end in different contexts"},
		{"error.html", "\n{{if eq .RequestID \"a\"}}x{{end}}", "error.html:2: executing"},
		{"error.html", "\n{{slice .RequestID 1 2}}", "error.html:2: executing"},
		{"error.html", "\n{{len .RequestID}}", "error.html:2: executing"},
		{"error.html", "\n{{if gt .RetryAfter 60}}x{{end}}", "error.html:2: executing"},
		{"error.html", "\n{{template \"other\"}}", "error.html:2: "},
		{"error.html", "a\nGer\xe4t\n", "error.html:2: is not UTF-8"},
		{"error.html", long, "error.html: has 65537 bytes; 65536 are allowed"},
		{"error.htm", "", "error.htm: is not the name of a page; write error.html"},
		{"logo.png", "", "logo.png: is not the name of a page"},
		{"429.html", "", "429.html: is not the name of a page"},
		{"4xx.de.html", "", "4xx.de.html: is not the name of a page"},
		{"error.fr.html", "", "error.fr.html: is not the name of a page"},
		{"Wiki.example.html", "", "Wiki.example.html: is not the name of a page"},
		{"wiki.example:80.html", "", "wiki.example:80.html: is not the name of a page"},
		{"wiki.example/error.html", "", "wiki.example: is not the name of a page"},
		{"deep.html/error.html", "", "deep.html: is not a file"},
		{"wiki.example.html", "{{.X}}", "wiki.example.html:1: executing"},
	} {
		dir := t.TempDir()
		write(t, dir, tc.name, tc.text)
		s, err := Load(Options{Directory: dir, Languages: []string{"en", "de"}})
		var fault *Fault
		if err == nil || !errors.As(err, &fault) || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(fault.File, dir) {
			t.Errorf("%s with %.40q: %v, want %q; %v", tc.name, tc.text, err, tc.want, s != nil)
		}
		if err != nil && strings.Count(err.Error(), "\n") != 0 {
			t.Errorf("%s is told several times: %v", tc.name, err)
		}
	}
}

func TestOptions(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "wiki.example.html", "bonjour")
	for _, tc := range []struct {
		o    Options
		want string
	}{
		{Options{}, "errorPages.languages: 0 are given; 1 to 16 are allowed"},
		{Options{Languages: strings.Fields(strings.Repeat("en ", 17))}, "17 are given"},
		{Options{Languages: []string{"en", "deutsch!"}}, `errorPages.languages: "deutsch!" is not a language`},
		{Options{Languages: []string{"en", "EN"}}, "errorPages.languages: en is given twice"},
		{Options{Languages: []string{"fr"}}, "errorPages: error.html: is missing: errorPages.languages has fr"},
		{Options{Directory: dir, Languages: []string{"en", "fr"}}, filepath.Join(dir, "error.html") + ": is missing"},
		{Options{Directory: dir + "/none", Languages: []string{"en"}}, dir + "/none: no such file or directory"},
	} {
		if _, err := Load(tc.o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.o, err, tc.want)
		}
	}
}

// TestRegion: a region has the texts of its language.
func TestRegion(t *testing.T) {
	s := load(t, Options{Languages: []string{"de-CH", "en-GB"}})
	p := s.Find("h", []string{"de"}, Busy)
	if text := string(p.Append(nil, usual())); p.Language() != "de-CH" || !strings.Contains(text, `<html lang="de-CH">`) || !strings.Contains(text, "beschäftigt") {
		t.Errorf("%s: %s", p.Language(), text)
	}
}
