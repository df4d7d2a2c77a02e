package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"tempomat/classify/standing"
)

// TestPagesAreReadForNames checks that a part proves something only if a page that
// passed named it, and that the page passes as it is.
func TestPagesAreReadForNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := "<link rel=stylesheet href=/a.css>" + strings.Repeat("<p>text</p>", 20_000)
		r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if strings.HasSuffix(q.URL.Path, ".css") {
				w.Header().Set("Content-Type", "text/css")
				return
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, page)
		}), fairly)
		standing, err := standing.New([16]byte{}, standing.Config{ClientClass: "slash32", SessionClass: "session"})
		if err != nil {
			t.Fatal(err)
		}
		p := *r.handler.Policy()
		p.Standing = standing
		r.handler.SetPolicy(&p)
		for i, step := range []struct {
			path string
			want float64 // before the answer
		}{
			{"/", 1},
			{"/a.css", 1}, {"/b.css", 1}, {"/b.css", 1}, {"/b.css", 1}, // one that is named
			{"/", 1},
			{"/a.css", 1}, // two
			{"/", 2},
		} {
			_, body := r.do(r.client, request(t, nil, "GET "+step.path))
			synctest.Wait()
			if step.path == "/" && body != page {
				t.Errorf("step %d: the page is another one", i)
			}
			if c := r.row().Client; c == nil || c.Standing != step.want {
				t.Errorf("step %d, %s: standing %+v, want %g", i, step.path, c, step.want)
			}
		}
	})
}
