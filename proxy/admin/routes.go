package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tempomat/proxy/admin/api"
)

// accessPath is answered by the guard.
const accessPath = "/v1/access"

// Handler returns the API without a server around it, and without the page: the paths that are of
// the parts that it was made of.
func (a *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	var known []string
	get := func(path string, serve http.HandlerFunc, parameters ...string) {
		mux.HandleFunc(path, reading(serve, parameters...))
		known = append(known, path)
	}
	post := func(path string, serve http.HandlerFunc) {
		mux.HandleFunc(path, acting(serve))
		known = append(known, path)
	}
	get("/v1/classes", view(a.classes).serve)
	get("/v1/buckets", view(a.buckets).serve, "class", "sort", "limit")
	get("/v1/key", view(a.key).serve, "class", "id")
	get("/v1/gate", view(a.gate).serve)
	get("/v1/share", view(a.share).serve)
	get("/v1/health", view(a.health).serve)
	get("/v1/ready", view(a.ready).serve)
	get("/v1/status", view(a.status).serve)
	get("/v1/history", view(a.history).serve, "hours")
	post("/v1/reload", view(a.reload).serve)
	if a.opts.Inside.Overview != nil {
		get("/v1/overview", view(a.overview).serve)
		get("/v1/shapes", view(a.shapes).serve, "limit")
		get("/v1/recent", view(a.recent).serve, "limit", "each")
		get("/v1/series", view(a.series).serve, "minutes")
	}
	if a.opts.Inspector != nil {
		get("/v1/queue", view(a.queue).serve, "limit")
		get("/v1/explain", view(a.explain).serve, "of")
		get("/v1/pins", view(a.pins).serve)
		post("/v1/forgive", a.act(a.opts.Inspector.Forgive).serve)
		post("/v1/pin", a.act(a.opts.Inspector.Pin).serve)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, &failure{http.StatusNotFound, "no such path; known: " + strings.Join(known, ", ")})
	})
	return mux
}

// view makes the document of a path. Its error is a failure, or says what is wrong with what was
// asked for.
type view func(r *http.Request) (any, error)

func (v view) serve(w http.ResponseWriter, r *http.Request) {
	reply, err := v(r)
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, reply)
}

// failure is why a request is not answered, with the status that says so.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

// fail answers with an error. Of a client that has left there is nothing to answer.
func fail(w http.ResponseWriter, err error) {
	f := &failure{http.StatusBadRequest, err.Error()}
	if errors.Is(err, context.Canceled) {
		return
	}
	errors.As(err, &f)
	switch f.status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="tempomat"`)
	case http.StatusRequestEntityTooLarge:
		w.Header().Set("Connection", "close") // what else is sent is not read
	}
	answer(w, f.status, api.ErrorReply{Version: api.Version, Error: f.text})
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // a number that JSON does not have, NaN
		fail(w, &failure{http.StatusInternalServerError, "cannot be written as JSON: " + err.Error()})
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // who has left needs no answer
}

// reading lets GET and HEAD pass, with the named parameters and no others: a misspelt one
// must not silently show something else.
func reading(next http.HandlerFunc, parameters ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			wrongMethod(w, r, "GET, HEAD")
			return
		}
		for name := range r.URL.Query() {
			if !slices.Contains(parameters, name) {
				fail(w, fmt.Errorf("unknown parameter %q; known: %s", name, listOrNone(parameters)))
				return
			}
		}
		next(w, r)
	}
}

// numberOf is a parameter that is a whole number from 1 to most; usual, if it is not given.
func numberOf(r *http.Request, parameter string, usual, most int) (int, error) {
	q := r.URL.Query()
	if !q.Has(parameter) {
		return usual, nil
	}
	n, err := strconv.Atoi(q.Get(parameter))
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s: %q is not a whole number from 1 to %d", parameter, q.Get(parameter), most)
	}
	return n, nil
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
	fail(w, &failure{http.StatusMethodNotAllowed, fmt.Sprintf("%q is not for %s; allowed: %s", r.Method, r.URL.Path, allow)})
}

func listOrNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
