package admin

import (
	"embed"
	"io/fs"
	"net/http"
)

// The dashboard consists of plain HTML, CSS and JavaScript modules. It needs no build tool, and loads nothing
// from other servers.
//
//go:embed static
var static embed.FS

// pages returns a handler that serves the files of the dashboard at their paths.
func pages() *http.ServeMux {
	mux := http.NewServeMux()
	files, err := fs.Glob(static, "static/*")
	if err != nil {
		panic(err) // the pattern is valid
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

// pagePolicy lets the page load its own files and ask its own server, and nothing else. It forbids inline
// scripts and styles, frames around the page, and forms.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// servePage answers with one of the dashboard's files.
func servePage(w http.ResponseWriter, r *http.Request, file string) {
	h := w.Header()
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-cache") // browsers must ask again, because a new release changes the files
	http.ServeFileFS(w, r, static, file)
}
