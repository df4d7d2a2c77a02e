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

// Handler returns the API without its guard and without the page.
func (a *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	var known []string
	handle := func(request string, h http.Handler) {
		mux.Handle(request, h)
		known = append(known, request)
	}
	get := func(path string, v view, parameters ...string) { handle("GET "+path, v.handler(parameters)) }
	get("/v1/classes", a.classes)
	get("/v1/buckets", a.buckets, "class", "sort", "limit")
	get("/v1/key", a.key, "class", "id")
	get("/v1/gate", a.gate)
	get("/v1/share", a.share)
	get("/v1/health", a.health)
	get("/v1/ready", a.ready)
	get("/v1/status", a.status)
	get("/v1/history", a.history, "hours")
	get("/v1/overview", a.overview)
	get("/v1/shapes", a.shapes, "limit")
	get("/v1/recent", a.recent, "limit")
	get("/v1/queue", a.queue, "limit")
	get("/v1/explain", a.explain, "of")
	get("/v1/pins", a.pins)
	handle("POST /v1/reload", a.reloading())
	handle("POST /v1/forgive", a.act(Inspector.Forgive).handler(nil))
	handle("POST /v1/pin", a.act(Inspector.Pin).handler(nil))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, &failure{http.StatusNotFound, fmt.Sprintf("no such path for %s; known: %s", r.Method, strings.Join(known, ", "))})
	})
	return mux
}

// view makes the document of a path. The error is a failure, or says what is wrong with the request.
type view func(r *http.Request) (any, error)

// handler accepts only the named parameters. Otherwise a misspelt parameter would be ignored, and the answer
// would be about something else.
func (v view) handler(parameters []string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for name := range r.URL.Query() {
			if !slices.Contains(parameters, name) {
				fail(w, fmt.Errorf("unknown parameter %q; known: %s", name, listOrNone(parameters)))
				return
			}
		}
		reply, err := v(r)
		Answer(w, reply, err)
	}
}

// Answer writes a document as JSON, or an error. An error without a status gets 400.
func Answer(w http.ResponseWriter, reply any, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, reply)
}

// failure is an error with its HTTP status.
type failure struct {
	status int
	text   string
}

func (f *failure) Error() string { return f.text }

// fail answers with an error. A client that has disconnected gets no answer.
func fail(w http.ResponseWriter, err error) {
	f := &failure{http.StatusBadRequest, err.Error()}
	if errors.Is(err, context.Canceled) {
		return
	}
	errors.As(err, &f)
	if f.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="tempomat"`)
	}
	answer(w, f.status, api.ErrorReply{Version: api.Version, Error: f.text})
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // v contains NaN, which JSON can't represent
		fail(w, &failure{http.StatusInternalServerError, "can't be written as JSON: " + err.Error()})
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // fails only if the client has disconnected
}

// numberOf returns the value of a parameter, a whole number from 1 to most, or usual if the parameter is missing.
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

func listOrNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
