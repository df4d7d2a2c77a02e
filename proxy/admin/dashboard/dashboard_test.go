package dashboard

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestPageAnswers(t *testing.T) {
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, tag string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		r.Header.Set("If-None-Match", tag)
		p.ServeHTTP(rec, r)
		return rec
	}
	for path, kind := range map[string]string{"/": "text/html; charset=utf-8", "/static/main.js": "text/javascript; charset=utf-8",
		"/static/dashboard.css": "text/css; charset=utf-8", "/static/icon.svg": "image/svg+xml"} {
		rec := ask("GET", path, "")
		if h := rec.Header(); rec.Code != 200 || h.Get("Content-Type") != kind || !p.Has(path) || h.Get("Content-Security-Policy") != policy ||
			h.Get("Cross-Origin-Opener-Policy") != "same-origin" || h.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d %v", path, rec.Code, h)
		}
		if again := ask("GET", path, rec.Header().Get("ETag")); again.Code != 304 || again.Body.Len() > 0 {
			t.Errorf("%s again: %d, %d bytes", path, again.Code, again.Body.Len())
		}
		if head := ask("HEAD", path, ""); head.Code != 200 || head.Body.Len() > 0 {
			t.Errorf("HEAD %s: %d, %d bytes", path, head.Code, head.Body.Len())
		}
	}
	for _, path := range []string{"/static", "/static/", "/static/index.html", "/static/none.js", "/index.html", "//", "/static/../dashboard.go"} {
		if rec := ask("GET", path, ""); rec.Code != 404 || p.Has(path) {
			t.Errorf("%s: %d", path, rec.Code)
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFilesAreSelfContained: nothing inline, nothing from elsewhere, and no text that a client
// chose can become markup.
func TestFilesAreSelfContained(t *testing.T) {
	forbidden := regexp.MustCompile(`(?i)innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTML|\beval\(|new Function|\sstyle=|\son[a-z]+="|<style|@import|javascript:`)
	address := regexp.MustCompile(`(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s"']*`)
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for path, f := range p.files {
		for n, line := range strings.Split(string(f.body), "\n") {
			if bad := forbidden.FindString(line); bad != "" {
				t.Errorf("%s:%d: %q", path, n+1, bad)
			}
			if a := address.FindString(line); a != "" && !strings.HasPrefix(a, "http://www.w3.org/2000/svg") {
				t.Errorf("%s:%d: %q is elsewhere", path, n+1, a)
			}
		}
	}
	if scripts := regexp.MustCompile(`<script[^>]*>[^<]`).FindString(string(p.files["/"].body)); scripts != "" {
		t.Errorf("an inline script: %q", scripts)
	}
}
