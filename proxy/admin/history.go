package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"tempomat/limiter"
	"tempomat/proxy/admin/api"
)

// The number of hours that GET /v1/history gives.
const (
	usualHours = 24 // unless asked for another
	mostHours  = 168
)

func (a *Server) history(w http.ResponseWriter, r *http.Request) {
	if a.opts.History == nil {
		fail(w, http.StatusNotFound, "no history is kept: history.hours is 0 in the configuration")
		return
	}
	hours := usualHours
	if q := r.URL.Query(); q.Has("hours") {
		var err error
		if hours, err = strconv.Atoi(q.Get("hours")); err != nil || hours < 1 || hours > mostHours {
			fail(w, http.StatusBadRequest, fmt.Sprintf("hours: %q is not a whole number from 1 to %d", q.Get("hours"), mostHours))
			return
		}
	}
	reply := a.opts.History(hours)
	for _, h := range reply.Hours {
		sortClasses(h.Classes, a.opts.Ledger.Classes())
	}
	answer(w, http.StatusOK, reply)
}

// sortClasses puts classes in configured order, and those that are not configured any
// more behind.
func sortClasses(classes []api.HistoryClass, order []limiter.ClassInfo) {
	at := func(c api.HistoryClass) int {
		if i := slices.IndexFunc(order, func(o limiter.ClassInfo) bool { return o.Name == c.Class }); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(classes, func(b, c api.HistoryClass) int { return cmp.Compare(at(b), at(c)) })
}
