package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// route is a path of the API and what serves it.
type route struct {
	path  string
	serve http.HandlerFunc
}

// Paths that those which stand before the API know, too.
const (
	accessPath = "/v1/access"
	eventsPath = "/v1/events"
)

// routes are the paths that the API knows: of the parts that it was made of.
func (a *Server) routes() []route {
	all := []route{
		{"/v1/classes", reading(a.classes)},
		{"/v1/buckets", reading(a.buckets, "class", "sort", "limit")},
		{"/v1/key", reading(a.key, "class", "id")},
		{"/v1/gate", reading(a.gate)},
		{"/v1/share", reading(a.share)},
		{"/v1/health", reading(a.health)},
		{"/v1/ready", reading(a.ready)},
		{"/v1/status", reading(a.status)},
		{"/v1/history", reading(a.history, "hours")},
		{"/v1/reload", acting(a.reload)},
	}
	if a.opts.Inside.Overview != nil {
		all = append(all, []route{
			{"/v1/overview", reading(a.overview)},
			{"/v1/shapes", reading(a.shapes, "limit")},
			{"/v1/recent", reading(a.recent, "limit", "each")},
			{"/v1/series", reading(a.series, "minutes")},
			{eventsPath, reading(a.events)},
		}...)
	}
	if a.opts.Inspector != nil {
		all = append(all, []route{
			{"/v1/queue", reading(a.queue, "limit")},
			{"/v1/explain", reading(a.explain, "of")},
		}...)
	}
	if a.opts.Actor != nil {
		all = append(all, []route{
			{"/v1/pins", reading(a.pins)},
			{"/v1/forgive", acting(a.act(a.opts.Actor.Forgive))},
			{"/v1/pin", acting(a.act(a.opts.Actor.Pin))},
		}...)
	}
	return all
}

// Handler returns the API without a server around it, and without the page.
func (a *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	var known []string
	for _, r := range a.routes() {
		mux.HandleFunc(r.path, r.serve)
		known = append(known, r.path)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusNotFound, "no such path; known: "+strings.Join(known, ", "))
	})
	return mux
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
				fail(w, http.StatusBadRequest, fmt.Sprintf("unknown parameter %q; known: %s",
					name, listOrNone(parameters)))
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
	fail(w, http.StatusMethodNotAllowed, fmt.Sprintf("%q is not for %s; allowed: %s", r.Method, r.URL.Path, allow))
}
