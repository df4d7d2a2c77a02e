package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestErrorPages: a site's own page is shown from the start and after a reload, a broken one
// is named with its line and keeps the one before; and robots.txt is ours when asked for.
func TestErrorPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pages := filepath.Join(dir, "pages")
	if err := os.Mkdir(pages, 0o755); err != nil {
		t.Fatal(err)
	}
	put("pages/error.html", "<!doctype html><title>first {{.Language}}</title>{{.RequestID}}")
	put("robots.txt", "User-agent: *\nDisallow: /\n")
	const nobody = "http://127.0.0.1:9"
	s := startProxy(t, nobody, "errorPages: {directory: "+pages+"}\n")
	show := func(path string) answer {
		h := http.Header{"Accept": {"text/html"}, "Accept-Language": {"de"}}
		return fetch(t, protocols[0].client(t), http.MethodGet, s.url+path, h, nil)
	}
	if a := show("/"); a.StatusCode != http.StatusBadGateway || !strings.Contains(a.body, "<title>first de</title>"+a.Header.Get("X-Request-Id")) {
		t.Errorf("%s: %s", a.Status, a.body)
	}
	if a := show("/robots.txt"); a.StatusCode != http.StatusBadGateway {
		t.Errorf("robots.txt is the backend's: %s", a.Status)
	}

	at := s.stderr.Len()
	put("pages/error.html", "<!doctype html>\n<title>broken {{.Langage}}</title>")
	s.configure(t, nobody, "errorPages: {directory: "+pages+"}\nrobotsTxt: "+filepath.Join(dir, "robots.txt")+"\n")
	ways[0].reload(s, at, rejected)
	s.stderr.Await(t, at, rejected, "pages/error.html:2: ", "Langage")
	if a := show("/"); !strings.Contains(a.body, "<title>first de</title>") {
		t.Errorf("a broken page is in force: %s", a.body)
	}

	at = s.stderr.Len()
	put("pages/error.html", "<!doctype html><title>second {{.Language}}</title>")
	ways[0].reload(s, at, reloaded)
	s.stderr.Await(t, at, reloaded)
	if a := show("/"); !strings.Contains(a.body, "<title>second de</title>") {
		t.Errorf("%s: %s", a.Status, a.body)
	}
	if a := show("/robots.txt"); a.StatusCode != http.StatusOK || a.body != "User-agent: *\nDisallow: /\n" {
		t.Errorf("%s: %s", a.Status, a.body)
	}
}
