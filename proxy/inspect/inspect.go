// Package inspect answers what support asks at night: who waits and why, what is known of
// one client, page or request, and what would change it. It turns what the limiter, the
// guess and the standing know into the documents of the admin API, in plain words, and
// carries out what an administrator decides for a single client.
package inspect

import (
	"fmt"
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

// Ledger is the accounts; *limiter.Limiter is one.
type Ledger interface {
	telemetry.Ledger
	// Forgive sets a key's debt to none and returns what it was, in CPU-seconds.
	Forgive(now time.Time, k limiter.Key) (forgiven float64, known bool)
}

// Inspector looks at single clients, pages and requests. Its methods may be called concurrently.
type Inspector struct {
	Requests Requests
	Ledger   Ledger
	Guess    *cpuaccount.Estimator
	Pinned   *classify.Pins
	// Recent are the last requests that were refused, redirected, failed, or waited for long, the
	// newest first, at most limit of them.
	Recent func(limit int) api.RecentReply
	Log    *zap.Logger
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
	before, reason := 0, "it has just been let go"
	if u.Outlook.Waits {
		before, reason = u.Outlook.Before, why(&u.Outlook)
	}
	return api.WaiterRow{
		Client: u.Client.String(), Group: u.Group.String(), Agent: u.Agent, Method: u.Method, Host: u.Host, URL: u.Target,
		Shape: u.Shape, Age: max(0, now.Sub(u.Arrived).Seconds()), Guess: u.Guess.Seconds(), Sure: u.Outlook.Sure,
		Before: before, Why: reason,
	}
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
	all := i.Recent(mostRecent).Rows
	for k := range all {
		if len(rows) < limit && match(&all[k]) {
			rows = append(rows, all[k])
		}
	}
	return rows
}

// plural is a number of things.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// longestKey is how many bytes the ID of a key has at most.
const longestKey = 256

// key is the one that an action is for, of a class that there is: what nobody has as a key would do
// nothing, and say that it did.
func (i *Inspector) key(a *api.ActRequest) (limiter.Key, error) {
	if len(a.Key) > longestKey {
		return limiter.Key{}, fmt.Errorf("key: it has %d bytes; at most %d are allowed", len(a.Key), longestKey)
	}
	return i.Requests.Policy().Classifier.KeyOf(a.Class, a.Key)
}

// Forgive sets the debt of a key to none. By is who asked for it, for the log.
func (i *Inspector) Forgive(now time.Time, by string, a api.ActRequest) (api.ActReply, error) {
	k, err := i.key(&a)
	if err != nil {
		return api.ActReply{}, err
	}
	if a.Seconds != 0 || a.Standing != 0 {
		return api.ActReply{}, fmt.Errorf("seconds and standing are for pins; forgive takes class and key only")
	}
	debt, known := i.Ledger.Forgive(now, k)
	if !known { // of several instances that are asked, some may never have seen it
		return api.ActReply{Version: api.Version, Done: fmt.Sprintf("%s %s owes nothing: it was not charged recently.", k.Class, k.ID)}, nil
	}
	i.Log.Info("forgave a debt", zap.String("class", k.Class), zap.String("key", k.ID), zap.Float64("cpu_s", debt), zap.String("by", by))
	done := fmt.Sprintf("%s %s owes nothing now; it owed %s.", k.Class, k.ID, cpuSeconds(debt))
	if debt == 0 {
		done = fmt.Sprintf("%s %s owed nothing; it is no longer ahead of its share.", k.Class, k.ID)
	}
	return api.ActReply{Version: api.Version, Done: done}, nil
}

// Pin gives the clients with a key a standing for a time, or takes that back. By is who
// asked for it, for the log.
func (i *Inspector) Pin(now time.Time, by string, a api.ActRequest) (api.ActReply, error) {
	k, err := i.key(&a)
	if err != nil {
		return api.ActReply{}, err
	}
	d := classify.LongestPin + 1 // more is refused as that is
	if a.Seconds >= 0 && a.Seconds <= classify.LongestPin.Seconds() {
		d = time.Duration(a.Seconds * float64(time.Second))
	}
	if err := i.Pinned.Set(now, classify.Pin{Key: k, Standing: a.Standing, Until: now.Add(d)}); err != nil {
		return api.ActReply{}, err
	}
	done, log := fmt.Sprintf("%s %s has a standing of %g for %s.", k.Class, k.ID, a.Standing, span(a.Seconds)), "pinned a standing"
	if a.Standing == 0 {
		done, log = fmt.Sprintf("%s %s is no longer pinned.", k.Class, k.ID), "took a pin back"
	}
	i.Log.Info(log, zap.String("class", k.Class), zap.String("key", k.ID),
		zap.Float64("standing", a.Standing), zap.Float64("seconds", a.Seconds), zap.String("by", by))
	return api.ActReply{Version: api.Version, Done: done}, nil
}

// Pins are those in force.
func (i *Inspector) Pins(now time.Time) api.PinsReply {
	reply := api.PinsReply{Version: api.Version, Pins: []api.PinRow{}}
	for _, p := range i.Pinned.All(now) {
		reply.Pins = append(reply.Pins, api.PinRow{Class: p.Key.Class, Key: p.Key.ID, Standing: p.Standing, Left: p.Until.Sub(now).Seconds()})
	}
	return reply
}
