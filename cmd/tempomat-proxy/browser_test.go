//go:build world

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// browsers open a page, each with a new profile and without a proxy.
var browsers = map[string]func(t *testing.T, page string, words ...string){"Chromium": startChromium, "Firefox": startFirefox}

// startChromium hides that it is headless, because tempomat treats headless browsers as robots.
func startChromium(t *testing.T, page string, words ...string) {
	c := testkit.StartChromium(t, append(words,
		"--user-agent=Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36")...)
	c.Do("", "Target.createTarget", map[string]any{"url": page}, nil)
}

func startFirefox(t *testing.T, page string, words ...string) {
	path, home := testkit.Program(t, "firefox-esr", "firefox"), tempDir(t)
	profile := filepath.Join(home, "profile")
	testkit.Must(t, os.Mkdir(profile, 0o700))
	testkit.ReplaceFile(t, filepath.Join(profile, "user.js"), "user_pref('network.proxy.type', 0);\nuser_pref('browser.shell.checkDefaultBrowser', false);\nuser_pref('datareporting.policy.dataSubmissionEnabled', false);\n")
	testkit.Start(t, []string{"HOME=" + home, "MOZ_DISABLE_CONTENT_SANDBOX=1"}, path, append(words, "--headless", "--no-remote", "--profile", profile, page)...)
}

// guide is a server next to the site. It receives reports from the pages that a browser shows, beginning with the
// guide's own page, and makes the browser visit one page after another.
type guide struct {
	url string

	mu    sync.Mutex // guards the fields below
	shown string     // the last page's URL and title
	next  chan string
}

func startGuide(t *testing.T) *guide {
	t.Helper()
	g := &guide{next: make(chan string)}
	ends := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/start" { // Firefox loads the first page twice
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<!doctype html><link rel=icon href=data:,><script>", g.script(), "</script>")
			return
		}
		w.Header().Set("Access-Control-Allow-Origin", "*")
		said, _ := url.QueryUnescape(r.URL.RawQuery)
		g.mu.Lock()
		g.shown = said
		g.mu.Unlock()
		select {
		case next := <-g.next:
			_, _ = io.WriteString(w, next)
		case <-r.Context().Done():
		case <-ends:
		}
	}))
	t.Cleanup(func() { close(ends); s.Close() })
	g.url = s.URL
	return g
}

// open makes the browser visit a page.
func (g *guide) open(t *testing.T, page string) {
	t.Helper()
	select {
	case g.next <- page:
	case <-time.After(testkit.Patience):
		t.Fatal("the browser has not shown the page before")
	}
}

// script returns the script that a page must run when it is shown.
func (g *guide) script() string {
	return fmt.Sprintf("fetch('%s/?' + encodeURIComponent(location.href + ' ' + document.title)).then(a => a.text()).then(next => { if (next) location = next })", g.url)
}

// shows reports whether the page that was shown last has that title.
func (g *guide) shows(page, title string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shown == page+" "+title
}
