package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

// Limits and defaults of the parameters limit and hours, and of request bodies.
const (
	usualRows = 50 // number of rows if the request sets no limit
	mostRows  = 10_000
	// Default and maximum of limit for the queue.
	usualWaiting = 100
	mostWaiting  = 1000
	// Default and maximum of hours for the history.
	usualHours = 24
	mostHours  = 168
	// mostBody is the largest body of a request, in bytes.
	mostBody = 4 << 10
)

func (a *Server) classes(_ *http.Request) (any, error) {
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
	return reply, nil
}

func (a *Server) buckets(r *http.Request) (any, error) {
	q := r.URL.Query()
	class, err := a.className(q.Get("class"))
	if err != nil {
		return nil, err
	}
	sort := cmp.Or(q.Get("sort"), "wait")
	order, ok := telemetry.Orders()[sort]
	if !ok {
		return nil, fmt.Errorf("sort: %q is unknown; known: wait, cpu, rate, level, last", sort)
	}
	limit, err := numberOf(r, "limit", usualRows, mostRows)
	if err != nil {
		return nil, err
	}
	top := telemetry.TopRows{Limit: limit, Order: order}
	gone := r.Context()
	a.opts.Ledger.Dump(a.opts.Now(), class, func(row limiter.Row) bool {
		top.Offer(row)
		return gone.Err() == nil
	})
	rows := top.Sorted()
	for i := range rows {
		rows[i].Proof = a.opts.Proof(limiter.Key{Class: rows[i].Class, ID: rows[i].ID})
	}
	return api.BucketsReply{Version: api.Version, Class: class, Sort: sort, Rows: rows, Total: top.Seen}, nil
}

func (a *Server) key(r *http.Request) (any, error) {
	q := r.URL.Query()
	if q.Get("class") == "" || !q.Has("id") { // an empty id is allowed: it stands for requests without a User-Agent
		return nil, errors.New("class and id must both be given")
	}
	class, err := a.className(q.Get("class"))
	if err != nil {
		return nil, err
	}
	row, ok := a.opts.Ledger.Find(a.opts.Now(), limiter.Key{Class: class, ID: q.Get("id")})
	if !ok {
		return nil, &failure{http.StatusNotFound, fmt.Sprintf("class %s has no key %q: it was not charged recently", class, q.Get("id"))}
	}
	return api.KeyReply{Version: api.Version, Row: row}, nil
}

func (a *Server) gate(_ *http.Request) (any, error) {
	k := a.opts.Kernel()
	return api.GateReply{Version: api.Version, GateState: a.opts.Gate(), Kernel: &k}, nil
}

func (a *Server) share(_ *http.Request) (any, error) {
	reply := a.opts.Share()
	reply.Version = api.Version
	return reply, nil
}

// className finds a configured class by its name, in upper or lower case, because the original program wrote
// Slash32 for slash32. "" stays "".
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

func (a *Server) health(_ *http.Request) (any, error) {
	return api.OKReply{Version: api.Version, Status: "ok"}, nil
}

func (a *Server) ready(_ *http.Request) (any, error) {
	if err := a.opts.Ready(); err != nil {
		return nil, &failure{http.StatusServiceUnavailable, "not ready: " + err.Error()}
	}
	reply := api.ReadyReply{Version: api.Version, Status: "ok", Conditions: a.opts.Inside.Overview().Conditions}
	if len(reply.Conditions) > 0 && reply.Conditions[0].Bad {
		reply.Status = "degraded"
	}
	return reply, nil
}

func (a *Server) status(_ *http.Request) (any, error) {
	reply := a.opts.Status()
	reply.Version, reply.Goroutines, reply.Conditions = api.Version, runtime.NumGoroutine(), a.opts.Inside.Overview().Conditions
	if reply.Counters == nil {
		reply.Counters = map[string]uint64{}
	}
	return reply, nil
}

// reloadTimeout is the longest time that a client waits for a reload.
const reloadTimeout = 20 * time.Second

// reloading serves reloads, one at a time. A client waits at most reloadTimeout, for another client's reload
// and for its own. A reload that takes longer continues without its client.
func (a *Server) reloading() http.Handler {
	late, _ := json.Marshal(api.ErrorReply{Version: api.Version, Error: "this reload, or an earlier one, is still running: the log will show the result"})
	h := http.TimeoutHandler(view(a.reload).handler(nil), reloadTimeout, string(late))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		h.ServeHTTP(w, r)
	})
}

func (a *Server) reload(r *http.Request) (any, error) {
	select {
	case a.reloads <- struct{}{}:
		defer func() { <-a.reloads }()
	case <-r.Context().Done(): // the client has disconnected, or waited for reloadTimeout
		return nil, r.Context().Err()
	}
	if err := a.opts.Reload(); err != nil {
		return nil, &failure{http.StatusUnprocessableEntity, err.Error()}
	}
	return api.ReloadReply{Version: api.Version, Status: "ok", Restart: append([]string{}, a.opts.Waiting()...)}, nil
}

func (a *Server) overview(_ *http.Request) (any, error) { return a.opts.Inside.Overview(), nil }

func (a *Server) shapes(r *http.Request) (any, error) {
	limit, err := numberOf(r, "limit", usualRows, mostRows)
	if err != nil {
		return nil, err
	}
	return a.opts.Inside.Shapes(limit), nil
}

func (a *Server) recent(r *http.Request) (any, error) {
	limit, err := numberOf(r, "limit", usualRows, mostRows)
	if err != nil {
		return nil, err
	}
	return a.opts.Inside.Recent(limit), nil
}

func (a *Server) history(r *http.Request) (any, error) {
	if a.opts.History == nil {
		return nil, &failure{http.StatusNotFound, "no history is kept, because history.hours is 0 in the configuration"}
	}
	hours, err := numberOf(r, "hours", usualHours, mostHours)
	if err != nil {
		return nil, err
	}
	reply, order := a.opts.History(hours), a.opts.Ledger.Classes()
	at := func(c api.HistoryClass) int { // classes that are no longer configured come last
		if i := slices.IndexFunc(order, func(o limiter.ClassInfo) bool { return o.Name == c.Class }); i >= 0 {
			return i
		}
		return len(order)
	}
	for _, h := range reply.Hours {
		slices.SortStableFunc(h.Classes, func(b, c api.HistoryClass) int { return cmp.Compare(at(b), at(c)) })
	}
	return reply, nil
}

func (a *Server) queue(r *http.Request) (any, error) {
	limit, err := numberOf(r, "limit", usualWaiting, mostWaiting)
	if err != nil {
		return nil, err
	}
	a.looking.Lock()
	defer a.looking.Unlock()
	return a.opts.Inspector.Queue(a.opts.Now(), limit), nil
}

func (a *Server) explain(r *http.Request) (any, error) {
	a.looking.Lock()
	defer a.looking.Unlock()
	return a.opts.Inspector.Explain(a.opts.Now(), r.URL.Query().Get("of"))
}

func (a *Server) pins(_ *http.Request) (any, error) { return a.opts.Inspector.Pins(a.opts.Now()), nil }

// act returns a view that carries out an action of the Inspector.
func (a *Server) act(do func(i Inspector, now time.Time, by string, a api.ActRequest) (api.ActReply, error)) view {
	return func(r *http.Request) (any, error) {
		act, err := ReadAct(r)
		if err != nil {
			return nil, err
		}
		if act.Class, err = a.className(act.Class); err != nil {
			return nil, err
		}
		reply, err := do(a.opts.Inspector, a.opts.Now(), askedBy(r.Context()), act)
		if err != nil {
			return nil, &failure{http.StatusUnprocessableEntity, err.Error()}
		}
		return reply, nil
	}
}

// ReadAct reads the body of a request to forgive or pin. It rejects unknown fields, because otherwise a
// misspelt field would be ignored.
func ReadAct(r *http.Request) (act api.ActRequest, err error) {
	d := json.NewDecoder(http.MaxBytesReader(nil, r.Body, mostBody))
	d.DisallowUnknownFields()
	if err = d.Decode(&act); err != nil {
		return act, fmt.Errorf("the body must be JSON of at most %d bytes with class, key, seconds and standing: %w", mostBody, err)
	}
	if _, err = d.Token(); !errors.Is(err, io.EOF) {
		return act, errors.New("the body has more data after the JSON object")
	}
	if act.Class == "" {
		return act, errors.New("class and key must both be given")
	}
	return act, nil
}
