package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"

	"tempomat/proxy/admin/api"
)

// Inside is what requests add up to. All functions must be safe for concurrent use.
type Inside struct {
	Overview func() api.OverviewReply
	Shapes   func(limit int) api.ShapesReply
	Recent   func(limit int, each bool) api.RecentReply // each: those alike are not one row
	Series   func(minutes int) (api.SeriesReply, bool)  // false: there is none of so many minutes
	Events   *Events
}

func (a *Server) overview(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, a.opts.Inside.Overview())
}

func (a *Server) shapes(w http.ResponseWriter, r *http.Request) {
	limit, err := numberOf(r, "limit", usualRows, mostRows)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	answer(w, http.StatusOK, a.opts.Inside.Shapes(limit))
}

func (a *Server) recent(w http.ResponseWriter, r *http.Request) {
	limit, err := numberOf(r, "limit", usualRows, mostRows)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	each := r.URL.Query().Get("each")
	if each != "" && each != "true" {
		fail(w, http.StatusBadRequest, fmt.Sprintf("each: %q is unknown; known: true", each))
		return
	}
	answer(w, http.StatusOK, a.opts.Inside.Recent(limit, each != ""))
}

func (a *Server) series(w http.ResponseWriter, r *http.Request) {
	asked := cmp.Or(r.URL.Query().Get("minutes"), "5")
	minutes, err := strconv.Atoi(asked)
	reply, ok := a.opts.Inside.Series(minutes)
	if err != nil || !ok {
		fail(w, http.StatusBadRequest, fmt.Sprintf("minutes: %q is unknown; known: 5, 60, 1440", asked))
		return
	}
	answer(w, http.StatusOK, reply)
}
