package admin

import (
	"cmp"
	"net/http"
	"slices"

	"tempomat/limiter"
	"tempomat/proxy/admin/api"
)

// The number of hours that GET /v1/history gives.
const (
	usualHours = 24 // unless asked for another
	mostHours  = 168
)

func (a *Server) history(w http.ResponseWriter, r *http.Request) {
	hours, ok := hoursOf(w, r, a.opts.History != nil)
	if !ok {
		return
	}
	reply := a.opts.History(hours)
	for _, h := range reply.Hours {
		sortClasses(h.Classes, a.opts.Ledger.Classes())
	}
	answer(w, http.StatusOK, reply)
}

// hoursOf is how many hours are asked for. If they cannot be had it says why, and returns
// false.
func hoursOf(w http.ResponseWriter, r *http.Request, kept bool) (hours int, ok bool) {
	if !kept {
		fail(w, http.StatusNotFound, "no history is kept: history.hours is 0 in the configuration")
		return 0, false
	}
	hours, err := numberOf(r, "hours", usualHours, mostHours)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return 0, false
	}
	return hours, true
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
