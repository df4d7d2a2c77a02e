// Package inspect answers what support asks at night: who waits and why, what is known of
// one client, page or request, and what would change it. It turns what the limiter, the
// guess and the standing know into the documents of the admin API, in plain words, and
// carries out what an administrator decides for a single client.
package inspect

import (
	"cmp"
	"time"

	"go.uber.org/zap"

	"tempomat/classify"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

// Requests are those under way; *proxy.Handler has them.
type Requests interface {
	// WhoWaits is those that wait and match, the oldest first, at most limit of them.
	WhoWaits(now time.Time, limit int, match func(*proxy.Underway) bool) (rows []proxy.Underway, total int)
	// WhoRuns is those at the backend.
	WhoRuns(limit int, match func(*proxy.Underway) bool) (rows []proxy.Underway, total int)
	// Policy is what is in force.
	Policy() *proxy.Policy
}

// Recents are the last requests that were refused, redirected, failed, or waited for
// long.
type Recents interface {
	// Recent are they, the newest first, at most limit of them.
	Recent(limit int) api.RecentReply
}

// Forgiver takes debts away; *limiter.Limiter is one.
type Forgiver interface {
	// Forgive sets a key's debt to none and returns what it was, in CPU-seconds.
	Forgive(now time.Time, k limiter.Key) (forgiven float64, known bool)
}

// Inspector looks at single clients, pages and requests. All of its parts but Recents
// are needed. Its methods may be called concurrently.
type Inspector struct {
	Requests Requests
	Ledger   telemetry.Ledger
	Guess    *cpuaccount.Estimator
	Forgiver Forgiver
	Pinned   *classify.Pins
	Recents  Recents // nil: nothing is remembered
	Log      *zap.Logger
}

// Queue is who waits, who has waited for longest first, at most limit of them.
func (i *Inspector) Queue(now time.Time, limit int) api.QueueReply {
	rows, total := i.Requests.WhoWaits(now, limit, nil)
	reply := api.QueueReply{Version: api.Version, Total: total, Rows: []api.WaiterRow{}}
	for k := range rows {
		reply.Rows = append(reply.Rows, waiter(now, &rows[k]))
	}
	return reply
}

// waiter is a request that waits, or did until just now.
func waiter(now time.Time, u *proxy.Underway) api.WaiterRow {
	reason := "it has just been let go"
	if u.Outlook.Waits {
		reason = why(&u.Outlook)
	}
	before := u.Outlook.Before
	if !u.Outlook.Waits {
		before = 0
	}
	return api.WaiterRow{
		Client: u.Client.String(), Group: u.Group.String(), Agent: u.Agent, Method: u.Method, Host: u.Host, URL: u.Target,
		Shape: u.Shape, Age: max(0, now.Sub(u.Arrived).Seconds()), Guess: u.Guess.Seconds(), Sure: u.Outlook.Sure,
		Before: before, Why: reason,
	}
}

// row is what is known of a key; one that is not known has its whole burst.
func (i *Inspector) row(now time.Time, k limiter.Key) (r limiter.Row, known bool) {
	return i.Ledger.Find(now, k)
}

// budget is what a class gives its keys.
func (i *Inspector) budget(class string) limiter.Budget {
	for _, c := range i.Ledger.Classes() {
		if c.Name == class {
			return c.Budget
		}
	}
	return limiter.Budget{}
}

// mostRecent is how many are looked through at most.
const mostRecent = 10_000

// alike is what verdicts have in common that are told as one.
type alike struct {
	group, shape, outcome, reason, class, key string
	status                                    int
	shadow                                    bool
}

// Grouped tells verdicts that are alike as one, as the last of them: of a crawl there are hundreds.
// The rows are the newest first, as are those returned, at most limit.
func Grouped(all []api.VerdictRow, limit int) []api.VerdictRow {
	rows, at, clients := []api.VerdictRow{}, make(map[alike]int), make(map[alike]map[string]struct{})
	for i := range all {
		v := &all[i]
		a := alike{v.Group, v.Shape, v.Outcome, v.Reason, v.Class, v.Key, v.Status, v.Shadow}
		n, known := at[a]
		if !known {
			n = len(rows)
			at[a], clients[a] = n, make(map[string]struct{})
			rows = append(rows, *v)
			rows[n].Times = 0
		}
		rows[n].Times++
		rows[n].Waited = max(rows[n].Waited, v.Waited)
		clients[a][v.Client] = struct{}{}
		rows[n].Clients = len(clients[a])
	}
	return rows[:min(limit, len(rows))]
}

// recents are those of the last requests that match, at most limit of them.
func (i *Inspector) recents(limit int, match func(*api.VerdictRow) bool) []api.VerdictRow {
	rows := []api.VerdictRow{}
	if i.Recents == nil {
		return rows
	}
	all := i.Recents.Recent(mostRecent).Rows
	for k := range all {
		if len(rows) < limit && match(&all[k]) {
			rows = append(rows, all[k])
		}
	}
	return rows
}

// plural is a number of things.
func plural(n int, one, many string) string {
	return number(n) + " " + cmp.Or(map[bool]string{true: one}[n == 1], many)
}
