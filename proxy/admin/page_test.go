package admin

import (
	"io/fs"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"tempomat/internal/testkit"
)

func TestPageAnswers(t *testing.T) {
	ask := func(method, path string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		pages().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		return rec
	}
	for path, kind := range map[string]string{"/": "text/html; charset=utf-8", "/static/main.js": "text/javascript; charset=utf-8",
		"/static/dashboard.css": "text/css; charset=utf-8", "/static/icon.svg": "image/svg+xml"} {
		rec := ask("GET", path)
		if h := rec.Header(); rec.Code != 200 || h.Get("Content-Type") != kind || h.Get("Content-Security-Policy") != pagePolicy ||
			h.Get("Cross-Origin-Opener-Policy") != "same-origin" || h.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d %v", path, rec.Code, h)
		}
		if head := ask("HEAD", path); head.Code != 200 || head.Body.Len() > 0 {
			t.Errorf("HEAD %s: %d, %d bytes", path, head.Code, head.Body.Len())
		}
	}
	for _, path := range []string{"/static", "/static/", "/static/index.html", "/static/none.js", "/index.html", "//", "/static/../page.go"} {
		if rec := ask("GET", path); rec.Code < 300 {
			t.Errorf("%s: %d", path, rec.Code)
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFilesAreSelfContained: the files have no inline scripts and load nothing from other servers. They don't
// use functions that would turn a client's text into markup.
func TestFilesAreSelfContained(t *testing.T) {
	forbidden := regexp.MustCompile(`(?i)innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTML|\beval\(|new Function|\sstyle=|\son[a-z]+="|<style|@import|javascript:`)
	address := regexp.MustCompile(`(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s"']*`)
	files, err := fs.Glob(static, "static/*")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		body, err := static.ReadFile(file)
		testkit.Must(t, err)
		for n, line := range strings.Split(string(body), "\n") {
			testkit.Same(t, "", forbidden.FindString(line), "%s:%d", file, n+1)
			if a := address.FindString(line); a != "" && !strings.HasPrefix(a, "http://www.w3.org/2000/svg") {
				t.Errorf("%s:%d: %q is elsewhere", file, n+1, a)
			}
		}
		testkit.Same(t, "", regexp.MustCompile(`<script[^>]*>[^<]`).FindString(string(body)), "%s: an inline script", file)
	}
}
