package errorpage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhichPage: the host's before those for all, the status before the hundred before any, and
// the language above all.
func TestWhichPage(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"error.html", "error.fr.html", "429.html", "429.de.html", "5xx.html", "503.fr.html",
		"wiki.example/error.html", "wiki.example/502.de.html", "shop.example/429.fr.html",
	} {
		write(t, dir, name, name+" {{.Language}} {{.Status}} {{.Cause}} {{.Wait}}")
	}
	write(t, dir, ".429.html.swp", "an editor's")
	write(t, dir, "429.html~", "an editor's")
	s := load(t, Options{Directory: dir, Languages: []string{"en", "de", "fr"}})
	for _, tc := range []struct {
		host, asked string
		cause       Cause
		want        string
	}{
		{"h", "en", Unsound, "error.html en 400 unsound "},
		{"h", "de", Unsound, "error.html de 400 unsound "},
		{"h", "fr", Unsound, "error.fr.html fr 400 unsound "},
		{"h", "en", DebtOfNetwork, "429.html en 429 debt-of-network 5 seconds"},
		{"h", "de", OverLimit, "429.de.html de 429 over-limit 5 Sekunden"},
		{"h", "fr", OverLimit, "error.fr.html fr 429 over-limit 5 s"},
		{"h", "en", BackendDown, "5xx.html en 502 backend-down "},
		{"h", "fr", Busy, "503.fr.html fr 503 busy 5 s"},
		{"h", "nl", BackendDown, "5xx.html en 502 backend-down "},
		{"wiki.example", "en", DebtOfNetwork, "wiki.example/error.html en 429 debt-of-network 5 seconds"},
		{"WIKI.example.:8080", "de", BackendDown, "wiki.example/502.de.html de 502 backend-down "},
		{"wiki.example", "fr", BackendDown, "error.fr.html fr 502 backend-down "},
		{"shop.example", "fr", OverLimit, "shop.example/429.fr.html fr 429 over-limit 5 s"},
		{"shop.example", "de", OverLimit, "429.de.html de 429 over-limit 5 Sekunden"},
		{"../wiki.example", "en", Unsound, "error.html en 400 unsound "},
		{"[2001:db8::1]:80", "en", Unsound, "error.html en 400 unsound "},
		{"", "en", Unsound, "error.html en 400 unsound "},
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
		{"429.html", "a\nb {{.Nothing}}\n", "429.html:2: executing"},
		{"429.html", "a\n\n{{if}}\n", "429.html:3: missing value for if"},
		{"429.html", "a\n{{end}}", "429.html:2: unexpected {{end}}"},
		{"429.html", "{{.Title", "429.html:1: unclosed action"},
		{"429.html", "\n<a href='{{if .What}}'{{end}}>x</a>", "429.html:2: {{if}} branches end in different contexts"},
		{"429.html", "\n{{if eq .RequestID \"a\"}}x{{end}}", "429.html:2: executing"},
		{"429.html", "\n{{slice .RequestID 1 2}}", "429.html:2: executing"},
		{"429.html", "\n{{len .RequestID}}", "429.html:2: executing"},
		{"429.html", "\n{{if gt .RetryAfter 60}}x{{end}}", "429.html:2: executing"},
		{"429.html", "\n{{template \"other\"}}", "429.html:2: "},
		{"429.html", "a\nGer\xe4t\n", "429.html:2: is not UTF-8"},
		{"429.html", long, "429.html: has 65537 bytes; 65536 are allowed"},
		{"429.html", "{{range 70000}}x{{end}}", "the page has more than 65536 bytes"},
		{"429.htm", "", "429.htm: is no page; the names of pages are"},
		{"logo.png", "", "logo.png: is no page; the names of pages are"},
		{"42.html", "", "42.html: is no page; the names of pages are"},
		{"404.html", "", "404.html: is for a status that is never answered; those are 429, 503, 502, 504, 508, 400, 408, 405"},
		{"429.fr.html", "", "429.fr.html: is in a language that errorPages.languages does not name"},
		{"Wiki.example/429.html", "", "Wiki.example: is a directory whose name is no host"},
		{"wiki.example:80/429.html", "", "wiki.example:80: is a directory whose name is no host"},
		{"wiki.example/deep/429.html", "", "deep: is a directory in that of a host"},
		{"wiki.example/429.html", "{{.X}}", "wiki.example/429.html:1: executing"},
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
	write(t, dir, "429.fr.html", "bonjour")
	for _, tc := range []struct {
		o    Options
		want string
	}{
		{Options{}, "errorPages.languages: 0 are given; 1 to 16 are allowed"},
		{Options{Languages: strings.Fields(strings.Repeat("en ", 17))}, "17 are given"},
		{Options{Languages: []string{"en", "deutsch!"}}, `errorPages.languages: "deutsch!" is no language`},
		{Options{Languages: []string{"en", "EN"}}, "errorPages.languages: en is given twice"},
		{Options{Languages: []string{"fr"}}, "errorPages: error.fr.html: is missing: errorPages.languages names fr"},
		{Options{Directory: dir, Languages: []string{"en", "fr"}}, filepath.Join(dir, "error.fr.html") + ": is missing"},
		{Options{Directory: dir + "/none", Languages: []string{"en"}}, dir + "/none: no such file or directory"},
	} {
		if _, err := Load(tc.o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.o, err, tc.want)
		}
	}
}

// TestBounds: too many files, too many hosts, and pages that are too large together.
func TestBounds(t *testing.T) {
	for want, fill := range map[string]func(dir string){
		"is one page too many; 256 are allowed": func(dir string) {
			for i := range 37 {
				for _, name := range []string{"error", "4xx", "5xx", "429", "503", "502", "504"} {
					write(t, dir, fmt.Sprintf("h%d/%s.html", i, name), "x")
				}
			}
		},
		"is one host too many; 64 are allowed": func(dir string) {
			for i := range 65 {
				if err := os.Mkdir(filepath.Join(dir, fmt.Sprint("h", i)), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		},
		"bytes in all; 16777216 are allowed": func(dir string) {
			for i := range 10 {
				write(t, dir, fmt.Sprintf("h%d/error.html", i), strings.Repeat("x", longestPage-1))
			}
		},
	} {
		dir := t.TempDir()
		fill(dir)
		if _, err := Load(Options{Directory: dir, Languages: []string{"en", "de"}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
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
