// Package inspect answers an administrator's questions: which requests wait and why, what is known about a
// client, page or request, and what would change its situation. It produces the documents of the admin API, in
// plain words, from the state of the limiter, the cost estimates and the clients' standing. It also carries out
// an administrator's decisions about a single client.
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

// Requests lists the requests in progress. *proxy.Handler implements it.
type Requests interface {
	// ListWaiting returns the waiting requests that match, the oldest first, at most limit of them.
	ListWaiting(now time.Time, limit int, match func(*proxy.Underway) bool) (rows []proxy.Underway, total int)
	// ListRunning returns the requests at the backend that match.
	ListRunning(limit int, match func(*proxy.Underway) bool) (rows []proxy.Underway, total int)
	// Policy returns the current policy.
	Policy() *proxy.Policy
}

// Ledger holds the accounts. *limiter.Limiter implements it.
type Ledger interface {
	telemetry.Ledger
	// Forgive sets a key's debt to zero and returns the previous debt, in CPU-seconds.
	Forgive(now time.Time, k limiter.Key) (forgiven float64, known bool)
}

// Inspector looks at single clients, pages and requests. Its methods may be called concurrently.
type Inspector struct {
	Requests Requests
	Ledger   Ledger
	Guess    *cpuaccount.Estimator
	Pinned   *classify.Pins
	// Recent returns the last requests that were rejected or redirected, that failed, or that waited for long,
	// the newest first, at most limit of them.
	Recent func(limit int) api.RecentReply
	Log    *zap.Logger
}

// Queue returns the waiting requests, the longest wait first, at most limit of them.
func (i *Inspector) Queue(now time.Time, limit int) api.QueueReply {
	rows, total := i.Requests.ListWaiting(now, limit, nil)
	reply := api.QueueReply{Version: api.Version, Total: total, Rows: []api.WaiterRow{}}
	for k := range rows {
		reply.Rows = append(reply.Rows, waiter(now, &rows[k]))
	}
	return reply
}

// waiter describes a request that waits, or has just stopped waiting.
func waiter(now time.Time, u *proxy.Underway) api.WaiterRow {
	before, why := 0, "it was just let through"
	if u.Outlook.Waits {
		before = u.Outlook.Before
		why, _ = reason(&u.Outlook)
	}
	return api.WaiterRow{
		Client: u.Client.String(), Group: u.Group.String(), Agent: u.Agent, Method: u.Method, Host: u.Host, URL: u.Target,
		Shape: u.Shape, Age: max(0, now.Sub(u.Arrived).Seconds()), Guess: u.Guess.Seconds(), Sure: u.Outlook.Sure,
		Before: before, Why: why,
	}
}

// budget returns the share and burst of a class's keys.
func (i *Inspector) budget(class string) limiter.Budget {
	for _, c := range i.Ledger.Classes() {
		if c.Name == class {
			return c.Budget
		}
	}
	return limiter.Budget{}
}

// mostRecent is how many recent requests are searched.
const mostRecent = 10_000

// Grouped merges similar verdicts into one row, because a crawl causes hundreds of them. The row is the newest
// of these verdicts. Both lists begin with the newest row, and the result has at most limit rows.
func Grouped(all []api.VerdictRow, limit int) []api.VerdictRow {
	rows, at, clients := []api.VerdictRow{}, make(map[api.VerdictRow]int), make(map[api.VerdictRow]map[string]struct{})
	for i := range all {
		v := &all[i]
		a := api.VerdictRow{Group: v.Group, Shape: v.Shape, Outcome: v.Outcome, Reason: v.Reason, Class: v.Class, Key: v.Key, Status: v.Status, Shadow: v.Shadow} // fields that are equal in similar verdicts
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

// recents returns recent requests that match, at most limit of them.
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

// longestKey is the maximum length of a key's ID, in bytes.
const longestKey = 256

// key finds the key of an action. It rejects ids that no client can have, because otherwise the action would
// do nothing and report success.
func (i *Inspector) key(a *api.ActRequest) (limiter.Key, error) {
	if len(a.Key) > longestKey {
		return limiter.Key{}, fmt.Errorf("key: it has %d bytes; at most %d are allowed", len(a.Key), longestKey)
	}
	return i.Requests.Policy().Classifier.KeyOf(a.Class, a.Key)
}

// Forgive cancels the debt of a key. by names the user who asked, for the log.
func (i *Inspector) Forgive(now time.Time, by string, a api.ActRequest) (api.ActReply, error) {
	k, err := i.key(&a)
	if err != nil {
		return api.ActReply{}, err
	}
	if a.Seconds != 0 || a.Standing != 0 {
		return api.ActReply{}, fmt.Errorf("seconds and standing are for pins; forgive takes class and key only")
	}
	debt, known := i.Ledger.Forgive(now, k)
	if !known { // this isn't an error, because one of several instances may never have seen the key
		return api.ActReply{Version: api.Version, Done: fmt.Sprintf("%s %s owes nothing: it was not charged recently.", k.Class, k.ID)}, nil
	}
	i.Log.Info("forgave a debt", zap.String("class", k.Class), zap.String("key", k.ID), zap.Float64("cpu_s", debt), zap.String("by", by))
	done := fmt.Sprintf("%s %s owes nothing now; it owed %s.", k.Class, k.ID, cpuSeconds(debt))
	if debt == 0 {
		done = fmt.Sprintf("%s %s owed nothing; it is no longer ahead of its share.", k.Class, k.ID)
	}
	return api.ActReply{Version: api.Version, Done: done}, nil
}

// Pin gives the clients with a key a standing for some time, or removes the pin. by names the user who asked,
// for the log.
func (i *Inspector) Pin(now time.Time, by string, a api.ActRequest) (api.ActReply, error) {
	k, err := i.key(&a)
	if err != nil {
		return api.ActReply{}, err
	}
	d := classify.LongestPin + 1 // used for times that don't fit into a Duration; Set rejects it as too long
	if a.Seconds >= 0 && a.Seconds <= classify.LongestPin.Seconds() {
		d = time.Duration(a.Seconds * float64(time.Second))
	}
	if err := i.Pinned.Set(now, classify.Pin{Key: k, Standing: a.Standing, Until: now.Add(d)}); err != nil {
		return api.ActReply{}, err
	}
	done, log := fmt.Sprintf("%s %s has a standing of %g for %s.", k.Class, k.ID, a.Standing, span(a.Seconds)), "set a pin"
	if a.Standing == 0 {
		done, log = fmt.Sprintf("%s %s is no longer pinned.", k.Class, k.ID), "removed a pin"
	}
	i.Log.Info(log, zap.String("class", k.Class), zap.String("key", k.ID),
		zap.Float64("standing", a.Standing), zap.Float64("seconds", a.Seconds), zap.String("by", by))
	return api.ActReply{Version: api.Version, Done: done}, nil
}

// Pins returns the current pins.
func (i *Inspector) Pins(now time.Time) api.PinsReply {
	reply := api.PinsReply{Version: api.Version, Pins: []api.PinRow{}}
	for _, p := range i.Pinned.All(now) {
		reply.Pins = append(reply.Pins, api.PinRow{Class: p.Key.Class, Key: p.Key.ID, Standing: p.Standing, Left: p.Until.Sub(now).Seconds()})
	}
	return reply
}
