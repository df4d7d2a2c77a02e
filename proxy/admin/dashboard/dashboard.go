// Package dashboard is the page that shows in a browser what the admin API tells. It is plain
// HTML, CSS and JavaScript modules; nothing is built and nothing comes from elsewhere.
//
// Its charts are plain SVG of its own rather than those of a library: they are six small ones
// of at most 1,440 moments each, and SVG takes the theme's colours and patterns from the style
// sheet, is sharp on a wall, and can be read by the keyboard, by screen readers and by tests,
// which a canvas cannot.
package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
)

//go:embed static
var static embed.FS

// file is one as it is answered.
type file struct {
	kind string // its Content-Type
	tag  string // its ETag
	body []byte
}

// Page answers the page at / and its files under /static/. It is safe for concurrent use.
type Page struct {
	files map[string]file // by path
}

// New reads the embedded files.
func New() (*Page, error) {
	p := &Page{files: make(map[string]file)}
	err := fs.WalkDir(static, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		kind, ok := kinds()[path.Ext(name)]
		if !ok {
			return fmt.Errorf("dashboard: %s: files of this kind are not served", name)
		}
		sum := sha256.Sum256(body)
		p.files["/"+name] = file{kind: kind, tag: strconv.Quote(hex.EncodeToString(sum[:12])), body: body}
		return nil
	})
	p.files["/"] = p.files["/static/index.html"]
	delete(p.files, "/static/index.html")
	return p, err
}

// kinds are the Content-Types by extension. They do not depend on what the machine has
// installed.
func kinds() map[string]string {
	utf8 := map[string]string{"charset": "utf-8"}
	return map[string]string{
		".html": mime.FormatMediaType("text/html", utf8), ".css": mime.FormatMediaType("text/css", utf8),
		".js": mime.FormatMediaType("text/javascript", utf8), ".svg": "image/svg+xml",
	}
}

// Has tells whether a path is one of the page's.
func (p *Page) Has(path string) bool {
	_, ok := p.files[path]
	return ok
}

// policy lets the page load what it came with and talk to whom it came from, and nothing
// else: no inline script or style, no frame around it, no form that leaves it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// ServeHTTP answers GET and HEAD. What is no path of the page is 404.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := p.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-cache") // the next release's page is another one
	h.Set("ETag", f.tag)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "the page is read only", http.StatusMethodNotAllowed)
		return
	}
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", strconv.Itoa(len(f.body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(f.body) // who has left needs no answer
	}
}
