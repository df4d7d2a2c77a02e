package proxy

import (
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"tempomat/limiter"
)

// The number of rows that GET /v1/buckets gives.
const (
	adminRows    = 50 // unless asked for another
	adminMaxRows = 10_000
)

func (a *Admin) classes(w http.ResponseWriter, _ *http.Request) {
	keys := make(map[string]int)
	a.opts.Ledger.Dump(a.opts.Now(), "", func(r limiter.Row) bool {
		keys[r.Class]++
		return true
	})
	reply := ClassesReply{Version: AdminVersion, Classes: []ClassReply{}}
	for _, c := range a.opts.Ledger.Classes() {
		reply.Classes = append(reply.Classes, ClassReply{
			Name: c.Name, CPUs: c.Budget.CPUs, Burst: c.Budget.Burst.Seconds(),
			Cap: c.Budget.Cap, Shadow: c.Budget.Shadow, Keys: keys[c.Name],
		})
	}
	adminReply(w, http.StatusOK, reply)
}

func (a *Admin) buckets(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	class, err := a.className(q.Get("class"))
	if err != nil {
		adminFail(w, http.StatusBadRequest, err.Error())
		return
	}
	sort := q.Get("sort")
	if sort == "" {
		sort = "wait"
	}
	order, ok := adminOrders()[sort]
	if !ok {
		adminFail(w, http.StatusBadRequest, fmt.Sprintf("sort: %q is unknown; known: wait, cpu, rate, level, last", sort))
		return
	}
	limit := adminRows
	if s := q.Get("limit"); s != "" {
		limit, err = strconv.Atoi(s)
		if err != nil || limit < 1 || limit > adminMaxRows {
			adminFail(w, http.StatusBadRequest, fmt.Sprintf("limit: %q is not a whole number from 1 to %d", s, adminMaxRows))
			return
		}
	}
	top := topRows{limit: limit, order: order}
	gone := r.Context()
	a.opts.Ledger.Dump(a.opts.Now(), class, func(row limiter.Row) bool {
		top.offer(row)
		return gone.Err() == nil
	})
	reply := BucketsReply{Version: AdminVersion, Class: class, Sort: sort, Rows: top.sorted(), Total: top.seen}
	adminReply(w, http.StatusOK, reply)
}

func (a *Admin) key(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("class") == "" || !q.Has("id") { // an empty id is one: no User-Agent
		adminFail(w, http.StatusBadRequest, "class and id must both be given")
		return
	}
	class, err := a.className(q.Get("class"))
	if err != nil {
		adminFail(w, http.StatusBadRequest, err.Error())
		return
	}
	row, ok := a.opts.Ledger.Find(a.opts.Now(), limiter.Key{Class: class, ID: q.Get("id")})
	if !ok {
		adminFail(w, http.StatusNotFound, fmt.Sprintf("class %s has no key %q: it was not charged lately", class, q.Get("id")))
		return
	}
	adminReply(w, http.StatusOK, KeyReply{Version: AdminVersion, Row: row})
}

func (a *Admin) gate(w http.ResponseWriter, _ *http.Request) {
	adminReply(w, http.StatusOK, GateReply{Version: AdminVersion, GateState: a.opts.Gate()})
}

func (a *Admin) share(w http.ResponseWriter, _ *http.Request) {
	reply := a.opts.Share()
	reply.Version = AdminVersion
	adminReply(w, http.StatusOK, reply)
}

// className finds the class that is meant: as configured, or in any other case
// of letters, since the original wrote Slash32 for slash32. "" stays "".
func (a *Admin) className(asked string) (string, error) {
	if asked == "" {
		return "", nil
	}
	var known []string
	found := ""
	for _, c := range a.opts.Ledger.Classes() {
		if c.Name == asked {
			return asked, nil
		}
		if strings.EqualFold(c.Name, asked) && found == "" {
			found = c.Name
		}
		known = append(known, c.Name)
	}
	if found == "" {
		return "", fmt.Errorf("class %q is unknown; known: %s", asked, listOrNone(known))
	}
	return found, nil
}

func (a *Admin) health(w http.ResponseWriter, _ *http.Request) {
	adminReply(w, http.StatusOK, OKReply{Version: AdminVersion, Status: "ok"})
}

func (a *Admin) ready(w http.ResponseWriter, _ *http.Request) {
	if err := a.opts.Ready(); err != nil {
		adminFail(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
		return
	}
	adminReply(w, http.StatusOK, OKReply{Version: AdminVersion, Status: "ok"})
}

func (a *Admin) status(w http.ResponseWriter, _ *http.Request) {
	s := a.opts.Status()
	if s.Counters == nil {
		s.Counters = map[string]uint64{}
	}
	adminReply(w, http.StatusOK, StatusReply{
		Version: AdminVersion, Release: s.Release, Mode: s.Mode, Held: s.Held, Buffer: s.Buffer, Connections: s.Connections, Counters: s.Counters,
		Uptime:     max(0, a.opts.Now().Sub(s.Started)).Seconds(),
		Goroutines: runtime.NumGoroutine(),
	})
}

// reload runs one reload at a time, and lets nobody wait for longer than
// ReloadTimeout, neither for another's reload nor for their own; a reload that
// takes longer goes on without its client.
func (a *Admin) reload(w http.ResponseWriter, r *http.Request) {
	patience := time.NewTimer(a.opts.ReloadTimeout)
	defer patience.Stop()
	select {
	case a.reloading <- struct{}{}:
	case <-patience.C:
		adminFail(w, http.StatusServiceUnavailable, "another reload is still running: nothing was done")
		return
	case <-r.Context().Done():
		return
	}
	done := make(chan error, 1)
	go func() {
		err := a.opts.Reload()
		<-a.reloading
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			adminFail(w, http.StatusUnprocessableEntity, err.Error())
			return
		}
		adminReply(w, http.StatusOK, OKReply{Version: AdminVersion, Status: "ok"})
	case <-patience.C:
		adminFail(w, http.StatusGatewayTimeout, "the reload is still running: its end will be in the log")
	case <-r.Context().Done():
	}
}
