package admin

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

// The number of rows that a list gives.
const (
	usualRows = 50 // unless asked for another
	mostRows  = 10_000
)

func (a *Server) classes(w http.ResponseWriter, _ *http.Request) {
	keys := make(map[string]int)
	a.opts.Ledger.Dump(a.opts.Now(), "", func(r limiter.Row) bool {
		keys[r.Class]++
		return true
	})
	reply := api.ClassesReply{Version: api.Version, Classes: []api.ClassReply{}}
	for _, c := range a.opts.Ledger.Classes() {
		reply.Classes = append(reply.Classes, api.ClassReply{
			Name: c.Name, CPUs: c.Budget.CPUs, Burst: c.Budget.Burst.Seconds(),
			Cap: c.Budget.Cap, Shadow: c.Budget.Shadow, Keys: keys[c.Name],
		})
	}
	answer(w, http.StatusOK, reply)
}

func (a *Server) buckets(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	class, err := a.className(q.Get("class"))
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	sort := q.Get("sort")
	if sort == "" {
		sort = "wait"
	}
	order, ok := telemetry.Orders()[sort]
	if !ok {
		fail(w, http.StatusBadRequest, fmt.Sprintf("sort: %q is unknown; known: wait, cpu, rate, level, last", sort))
		return
	}
	limit, err := numberOf(r, "limit", usualRows, mostRows)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	top := telemetry.TopRows{Limit: limit, Order: order}
	gone := r.Context()
	a.opts.Ledger.Dump(a.opts.Now(), class, func(row limiter.Row) bool {
		top.Offer(row)
		return gone.Err() == nil
	})
	reply := api.BucketsReply{Version: api.Version, Class: class, Sort: sort, Rows: top.Sorted(), Total: top.Seen}
	answer(w, http.StatusOK, reply)
}

func (a *Server) key(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("class") == "" || !q.Has("id") { // an empty id is one: no User-Agent
		fail(w, http.StatusBadRequest, "class and id must both be given")
		return
	}
	class, err := a.className(q.Get("class"))
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	row, ok := a.opts.Ledger.Find(a.opts.Now(), limiter.Key{Class: class, ID: q.Get("id")})
	if !ok {
		fail(w, http.StatusNotFound, fmt.Sprintf("class %s has no key %q: it was not charged lately", class, q.Get("id")))
		return
	}
	answer(w, http.StatusOK, api.KeyReply{Version: api.Version, Row: row})
}

func (a *Server) gate(w http.ResponseWriter, _ *http.Request) {
	reply := api.GateReply{Version: api.Version, GateState: a.opts.Gate()}
	if a.opts.Kernel != nil {
		k := a.opts.Kernel()
		reply.Kernel = &k
	}
	answer(w, http.StatusOK, reply)
}

func (a *Server) share(w http.ResponseWriter, _ *http.Request) {
	reply := a.opts.Share()
	reply.Version = api.Version
	answer(w, http.StatusOK, reply)
}

// className finds the class that is meant: as configured, or in any other case
// of letters, since the original wrote Slash32 for slash32. "" stays "".
func (a *Server) className(asked string) (string, error) {
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

func (a *Server) health(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, api.OKReply{Version: api.Version, Status: "ok"})
}

func (a *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if err := a.opts.Ready(); err != nil {
		fail(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
		return
	}
	reply := api.ReadyReply{Version: api.Version, Status: "ok", Conditions: a.conditions()}
	if len(reply.Conditions) > 0 && reply.Conditions[0].Bad {
		reply.Status = "degraded"
	}
	answer(w, http.StatusOK, reply)
}

// conditions are what is wrong now; a list, also where there is nothing.
func (a *Server) conditions() []api.Condition {
	all := []api.Condition{}
	if a.opts.Conditions != nil {
		all = append(all, a.opts.Conditions()...)
	}
	return all
}

func (a *Server) status(w http.ResponseWriter, _ *http.Request) {
	s := a.opts.Status()
	if s.Counters == nil {
		s.Counters = map[string]uint64{}
	}
	answer(w, http.StatusOK, api.StatusReply{
		Version: api.Version, Release: s.Release, Mode: s.Mode, Held: s.Held, Buffer: s.Buffer, Connections: s.Connections, Counters: s.Counters,
		Uptime:     max(0, a.opts.Now().Sub(s.Started)).Seconds(),
		Goroutines: runtime.NumGoroutine(), Certificates: s.Certificates, Conditions: a.conditions(),
	})
}

// reload runs one reload at a time, and lets nobody wait for longer than
// ReloadTimeout, neither for another's reload nor for their own; a reload that
// takes longer goes on without its client.
func (a *Server) reload(w http.ResponseWriter, r *http.Request) {
	patience := time.NewTimer(a.opts.ReloadTimeout)
	defer patience.Stop()
	select {
	case a.reloading <- struct{}{}:
	case <-patience.C:
		fail(w, http.StatusServiceUnavailable, "another reload is still running: nothing was done")
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
			fail(w, http.StatusUnprocessableEntity, err.Error())
			return
		}
		reply := api.ReloadReply{Version: api.Version, Status: "ok", Restart: []string{}}
		if a.opts.Waiting != nil {
			reply.Restart = append(reply.Restart, a.opts.Waiting()...)
		}
		answer(w, http.StatusOK, reply)
	case <-patience.C:
		fail(w, http.StatusGatewayTimeout, "the reload is still running: its end will be in the log")
	case <-r.Context().Done():
	}
}
