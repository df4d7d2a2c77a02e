package admin

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// The dashboard is plain HTML, CSS and JavaScript modules; nothing is built and nothing comes from
// elsewhere. Its charts are plain SVG of its own rather than those of a library: they are six small
// ones of at most 1,440 moments each, and SVG takes the theme's colours and patterns from the style
// sheet, is sharp on a wall, and can be read by the keyboard, by screen readers and by tests, which a
// canvas cannot.
//
//go:embed static
var static embed.FS

// pageFile is the file of the dashboard at a path; empty: there is none.
func pageFile(path string) string {
	name := strings.TrimPrefix(path, "/")
	switch {
	case path == "/":
		return "static/index.html"
	case name == "static/index.html":
		return ""
	}
	if info, err := fs.Stat(static, name); err != nil || info.IsDir() {
		return ""
	}
	return name
}

// pagePolicy lets the page load what it came with and talk to whom it came from, and nothing
// else: no inline script or style, no frame around it, no form that leaves it.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// servePage answers GET and HEAD with a file of the page.
func servePage(w http.ResponseWriter, r *http.Request, file string) {
	h := w.Header()
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-cache") // the next release's page is another one
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		wrongMethod(w, r, "GET, HEAD")
		return
	}
	kind := map[string]string{".html": "html", ".css": "css", ".js": "javascript"}[path.Ext(file)] // not what the machine has installed
	if h.Set("Content-Type", "text/"+kind+"; charset=utf-8"); kind == "" {
		h.Set("Content-Type", "image/svg+xml")
	}
	http.ServeFileFS(w, r, static, file) //nolint:gosec // only what is embedded can be served
}
