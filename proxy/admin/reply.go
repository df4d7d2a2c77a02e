package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"tempomat/proxy/admin/api"
)

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // a number that JSON does not have, NaN
		fail(w, http.StatusInternalServerError, "cannot be written as JSON: "+err.Error())
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // who has left needs no answer
}

// fail answers with an error.
func fail(w http.ResponseWriter, status int, text string) {
	answer(w, status, api.ErrorReply{Version: api.Version, Error: text})
}

// reading lets GET and HEAD pass, with the named parameters and no others:
// a misspelt one must not silently show something else.
func reading(next http.HandlerFunc, parameters ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			wrongMethod(w, r, "GET, HEAD")
			return
		}
		for name := range r.URL.Query() {
			if !slices.Contains(parameters, name) {
				fail(w, http.StatusBadRequest, fmt.Sprintf("unknown parameter %q; known: %s",
					name, listOrNone(parameters)))
				return
			}
		}
		next(w, r)
	}
}

// acting lets POST pass.
func acting(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			wrongMethod(w, r, "POST")
			return
		}
		next(w, r)
	}
}

func wrongMethod(w http.ResponseWriter, r *http.Request, allow string) {
	w.Header().Set("Allow", allow)
	fail(w, http.StatusMethodNotAllowed, fmt.Sprintf("%q is not for %s; allowed: %s", r.Method, r.URL.Path, allow))
}

func listOrNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
