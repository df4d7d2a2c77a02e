package book

import (
	"cmp"
	"slices"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

const (
	recentRings = 64 // number of rings for each kind of entry
	ringRows    = 16
	// longWait is the shortest wait that people notice.
	longWait = time.Second
)

// recent keeps the last requests that were refused, redirected, slow, or failed. Redirected requests and all
// others have separate rings, so that a flood of redirects in an attack doesn't displace the requests that
// people ask about. Each of the two kinds has 64 rings. All requests from a client go to the same ring, so one
// client can displace at most 1/64 of the others.
type recent struct {
	ofPeople, ofOthers, redirected [recentRings]ring
}

// rings returns the rings for an entry's kind.
func (r *recent) rings(e *telemetry.Entry) *[recentRings]ring {
	switch {
	case e.Outcome == telemetry.Redirected:
		return &r.redirected
	case e.Group == telemetry.Known || e.Group == telemetry.Exempt:
		return &r.ofPeople
	}
	return &r.ofOthers
}

func (r *recent) add(client uint64, e *telemetry.Entry) {
	r.rings(e)[client%recentRings].add(*e)
}

// isNotable reports whether people may ask what happened to a request.
func isNotable(e *telemetry.Entry) bool {
	switch e.Outcome {
	case telemetry.Answered:
		return e.Shadow || e.Status >= 500 || e.Delay >= longWait
	case telemetry.ClientGone:
		return e.Waited >= longWait
	default:
		return true
	}
}

// Recent returns the last requests that were refused or redirected, that failed, or that waited for long, at
// most limit, the newest first. At most a quarter are redirected ones, unless there are too few others.
func (b *Book) Recent(limit int) api.RecentReply {
	reply := api.RecentReply{Version: api.Version, Rows: []api.VerdictRow{}}
	redirected, others := b.notable()
	some := min(len(redirected), max(limit/4, limit-len(others)))
	entries := append(others[:min(len(others), limit-some)], redirected[:some]...)
	sortByEnd(entries)
	for i := range entries {
		reply.Rows = append(reply.Rows, VerdictOf(&entries[i]))
	}
	return reply
}

// notable returns copies of all notable entries, the newest first.
func (b *Book) notable() (redirected, others []telemetry.Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range recentRings {
		redirected = append(redirected, b.recent.redirected[i].rows...)
		others = append(append(others, b.recent.ofPeople[i].rows...), b.recent.ofOthers[i].rows...)
	}
	sortByEnd(redirected)
	sortByEnd(others)
	return redirected, others
}

// sortByEnd puts the newest entries first.
func sortByEnd(entries []telemetry.Entry) {
	slices.SortFunc(entries, func(x, y telemetry.Entry) int {
		return cmp.Or(y.Ended.Compare(x.Ended), cmp.Compare(x.ID, y.ID))
	})
}

// VerdictOf describes a finished request for the admin API.
func VerdictOf(e *telemetry.Entry) api.VerdictRow {
	row := api.VerdictRow{
		At: float64(e.Ended.UnixMilli()) / 1000, ID: e.ID, Client: e.Client.String(), Group: e.Group.String(),
		Method: e.Method, Host: e.Host(), URL: e.Target(), Shape: e.Shape, Status: e.Status,
		Outcome: e.Outcome.String(), Reason: cmp.Or(e.Why(), limiter.None.String()), Class: e.Blame.Class, Key: e.Blame.ID,
		Waited: round(e.Waited.Seconds()), Cost: round(e.Cost.Seconds()), Guess: round(e.Guess.Seconds()), Shadow: e.Shadow,
		Times: 1, Clients: 1,
	}
	for _, k := range e.Keys() {
		if k.Class == "userAgent" {
			row.Agent = k.ID
		}
	}
	return row
}
