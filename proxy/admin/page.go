package admin

import (
	"embed"
	"io/fs"
	"net/http"
)

// The dashboard is plain HTML, CSS and JavaScript modules; nothing is built and nothing comes from
// elsewhere. Its charts are plain SVG of its own rather than those of a library: they are six small
// ones of at most 1,440 moments each, and SVG takes the theme's colours and patterns from the style
// sheet, is sharp on a wall, and can be read by the keyboard, by screen readers and by tests, which a
// canvas cannot.
//
//go:embed static
var static embed.FS

// pages are the files of the dashboard, each at its path.
func pages() *http.ServeMux {
	mux := http.NewServeMux()
	files, err := fs.Glob(static, "static/*")
	if err != nil {
		panic(err) // the pattern is sound
	}
	for _, file := range files {
		path := "/" + file
		if file == "static/index.html" {
			path = "/{$}"
		}
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { servePage(w, r, file) })
	}
	return mux
}

// pagePolicy lets the page load its own files and talk to its own server, and nothing else: no
// inline script or style, no frame around it, no form that leaves it.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// servePage answers with a file of the page.
func servePage(w http.ResponseWriter, r *http.Request, file string) {
	h := w.Header()
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-cache") // the next release's page is another one
	http.ServeFileFS(w, r, static, file)
}
