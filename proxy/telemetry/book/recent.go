package book

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

const (
	recentRings = 64
	ringRows    = 16
	// longWait is the wait that nobody takes for the page being slow.
	longWait = time.Second
)

// sentBack is why a request was redirected: it waited for room, as a newcomer.
const sentBack = "busy, newcomer"

// recent are the last requests that did not go well. All rows of a client are in one ring
// of many, so that it hides 1/64 of the others at most, however many it sends.
type recent struct {
	rings [recentRings]recentRing
}

type recentRing struct {
	rows []telemetry.Entry
	next int // where the next one goes once there are enough
}

func (r *recent) add(client uint64, e *telemetry.Entry) {
	ring := &r.rings[client%recentRings]
	if len(ring.rows) < ringRows {
		ring.rows = append(ring.rows, *e)
		return
	}
	ring.rows[ring.next] = *e
	ring.next = (ring.next + 1) % ringRows
}

// clientOf is whom an address belongs to: of IPv6, a /64.
func clientOf(a netip.Addr) netip.Addr {
	if a.Is6() {
		p, _ := a.Prefix(64)
		return p.Addr()
	}
	return a
}

// isNotable tells whether somebody may ask what became of a request.
func isNotable(e *telemetry.Entry) bool {
	switch e.Outcome {
	case telemetry.Answered:
		return e.Shadow || e.Status >= 500 || e.Delay >= longWait
	case telemetry.ClientGone:
		return waited(e) >= longWait
	default:
		return true
	}
}

// waited is for how long the request waited. One that never came to the backend did nothing
// else.
func waited(e *telemetry.Entry) time.Duration {
	if e.Cost == 0 && (e.Outcome == telemetry.ClientGone || e.Outcome == telemetry.Redirected) {
		return max(e.Delay, e.Took)
	}
	return e.Delay
}

// Recent are the last requests that were refused, redirected, failed, or waited for long,
// at most limit, the newest first.
func (b *Book) Recent(limit int) api.RecentReply {
	reply := api.RecentReply{Version: api.Version, Rows: []api.VerdictRow{}}
	entries := b.notable()
	for i := range entries[:min(limit, len(entries))] {
		reply.Rows = append(reply.Rows, VerdictOf(&entries[i]))
	}
	return reply
}

// notable copies all of them, the newest first.
func (b *Book) notable() []telemetry.Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []telemetry.Entry
	for i := range b.recent.rings {
		all = append(all, b.recent.rings[i].rows...)
	}
	slices.SortFunc(all, func(x, y telemetry.Entry) int {
		return cmp.Or(y.Ended.Compare(x.Ended), cmp.Compare(x.ID, y.ID))
	})
	return all
}

// VerdictOf is what became of a request that is over.
func VerdictOf(e *telemetry.Entry) api.VerdictRow {
	row := api.VerdictRow{
		At: float64(e.Ended.UnixMilli()) / 1000, ID: e.ID, Client: e.Client.String(), Group: e.Group.String(),
		Method: e.Method, Host: e.Host(), URL: e.Target(), Shape: e.Shape, Status: e.Status,
		Outcome: e.Outcome.String(), Reason: e.Reason.String(), Class: e.Blame.Class, Key: e.Blame.ID,
		Waited: round(waited(e).Seconds()), Cost: round(e.Cost.Seconds()), Guess: round(e.Guess.Seconds()), Shadow: e.Shadow,
	}
	switch {
	case e.Limit != "":
		row.Reason = "limit " + e.Limit
	case e.Outcome == telemetry.Redirected: // before anything was decided
		row.Reason = sentBack
	}
	for _, k := range e.Keys() {
		if k.Class == "userAgent" {
			row.Agent = k.ID
		}
	}
	return row
}
