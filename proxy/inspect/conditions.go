package inspect

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"tempomat/proxy/admin/api"
)

// Health is what Conditions look at.
type Health struct {
	Overview     *api.OverviewReply
	Backend      string // backend.url
	Certificates []api.Certificate
	Connections  int // that are open
	MostOpen     int // connections that may be
	LostLines    uint64
	WhyLost      error           // why the last line of the log was lost; nil: none was recently
	Trouble      string          // why accounts are not shared, though they should be
	Up           map[string]bool // whether those that accounts are shared with can be reached, by name
	OtherSecret  bool            // an instance has another coordination.secret
	Drift        []api.Condition // in what instances differ
	Rejected     bool            // the last reload was
}

// Shares of the requests to the backend from which on something is told.
const (
	mostFail  = 0.5  // the backend counts as down
	someFail  = 0.05 // answers with 5xx are no accident
	fewErrors = 2    // nor are so many
)

// renewBefore is how long before its end a certificate should have been renewed. Those with 90 days
// are renewed 30 days before it.
const renewBefore = 14 * 24 * time.Hour

// Conditions are what is wrong now, the worst first: what visitors get errors by, what they wait
// for, then what is lost or works less well. Each has one action. The doctor's top and status, the
// dashboard and /v1/ready show this list and make none of their own.
func Conditions(now time.Time, h *Health) (all []api.Condition) {
	all = append(all, h.backend()...)
	all = append(all, h.ended(now)...)
	if h.MostOpen > 0 && h.Connections >= h.MostOpen {
		all = append(all, api.Condition{
			Name: "connections-full", Bad: true, What: fmt.Sprintf("All %d connections are in use: new ones take the place of others.", h.MostOpen),
			Do: "See which addresses hold them with tempomat-doctor status; if they are visitors, raise LimitNOFILE or give the proxy more memory.",
		})
	}
	all = append(all, h.workers()...)
	if h.WhyLost != nil {
		all = append(all, api.Condition{
			Name: "log-lost", What: fmt.Sprintf("The log loses lines, %d so far: %v.", h.LostLines, h.WhyLost),
			Do: "Free space on the disk of the log, or restart what reads it.",
		})
	}
	all = append(all, h.endSoon(now)...)
	all = append(all, h.sharing()...)
	if h.Rejected {
		all = append(all, api.Condition{
			Name: "reload-rejected", What: "The last reload was rejected: the configuration from before is in force.",
			Do: "Run tempomat-proxy -check, correct the file, and reload again.",
		})
	}
	return all
}

// backend is the condition of requests that the backend did not answer, or answered with an error.
func (h *Health) backend() (all []api.Condition) {
	b := &h.Overview.Backend
	of := func(n int) string {
		return fmt.Sprintf("%d of %d requests in the last %.0f s", n, b.Requests, b.Seconds)
	}
	bad := func(name, do, format string, args ...any) {
		all = append(all, api.Condition{Name: name, Bad: true, What: fmt.Sprintf(format, args...), Do: do})
	}
	switch {
	case b.Down == 0:
	case float64(b.Down) >= mostFail*float64(b.Requests):
		bad("backend-down", "Start your web server, or check that it listens on "+h.Backend+" (backend.url); the log has the error.",
			"The backend is down: %s got 502.", of(b.Down))
	default:
		bad("backend-drops", "Check the error log of your web server: it restarts, or has no room for more connections.",
			"The backend drops connections: %s got 502.", of(b.Down))
	}
	if b.Slow > 0 {
		bad("backend-slow", "Check what your web server waits for: its error log, its database.",
			"The backend doesn't answer in time: %s got 504.", of(b.Slow))
	}
	if b.Broke > 0 {
		bad("backend-breaks", "Check the error log of your web server: processes crash or run out of time.",
			"The backend breaks answers off: %s got half a page.", of(b.Broke))
	}
	if b.Errors >= fewErrors && float64(b.Errors) >= someFail*float64(b.Requests) {
		bad("errors", "Check the error log of your web server and of the application.",
			"The site answers with errors: %s got a status of 500 or more from it.", of(b.Errors))
	}
	return all
}

const (
	idle     = 0.7 // of the CPUs: below, no request waits for one
	longWait = 2.0 // seconds
)

// workers tells that requests wait for long while CPUs are idle: they wait for workers. In the other
// modes they wait for their debts, which is what those are for.
func (h *Health) workers() []api.Condition {
	o := h.Overview
	g := &o.Gate
	used, longest := max(g.Utilisation, o.Use), 0.0
	for _, x := range o.Groups {
		longest = max(longest, x.Longest)
	}
	if o.Mode != "fair" || g.Queued == 0 || g.Workers == 0 || g.Utilisation < 0 || used >= idle || longest < longWait {
		return nil
	}
	held := fmt.Sprintf("all %d workers are in use", g.Workers)
	if g.Busy < g.Workers {
		held = fmt.Sprintf("%d of %d workers are in use, the others are kept for shorter requests", g.Busy, g.Workers)
	}
	return []api.Condition{{
		Name: "workers-held", Bad: true,
		What: fmt.Sprintf("%s for workers, not for CPUs (%.0f %% in use): %s.", plural(g.Queued, "request waits", "requests wait"), 100*used, held),
		Do:   "If your web server has more workers, set backend.workers to their number; tempomat-doctor top shows which pages hold them.",
	}}
}

// ended is the condition of certificates that can't be served, or that browsers reject.
func (h *Health) ended(now time.Time) (all []api.Condition) {
	for _, c := range h.Certificates {
		switch {
		case c.Expires.IsZero():
			all = append(all, api.Condition{Name: "certificate-missing", Bad: true,
				What: fmt.Sprintf("There is no certificate for %s%s.", c.File, because(c.Fault)), Do: "Browsers can't connect to it: correct the file, or the ACME error in the log."})
		case !c.Expires.After(now):
			all = append(all, api.Condition{Name: "certificate-ended", Bad: true,
				What: fmt.Sprintf("The certificate %s ended %s ago%s.", c.File, span(now.Sub(c.Expires).Seconds()), because(c.Fault)), Do: "Renew it: tempomat picks up the new file automatically."})
		}
	}
	return all
}

// endSoon is the condition of certificates that were not renewed in time.
func (h *Health) endSoon(now time.Time) (all []api.Condition) {
	for _, c := range h.Certificates {
		left := c.Expires.Sub(now)
		switch {
		case c.Expires.IsZero() || left <= 0:
		case left < renewBefore:
			all = append(all, api.Condition{Name: "certificate-ends", Bad: left < renewBefore/7,
				What: fmt.Sprintf("The certificate %s ends in %s%s.", c.File, span(left.Seconds()), because(c.Fault)), Do: "Renew it: tempomat picks up the new file automatically."})
		case c.Fault != "":
			all = append(all, api.Condition{Name: "certificate-faulty",
				What: fmt.Sprintf("The new certificate in %s is not in force%s.", c.File, because(c.Fault)), Do: "Correct the file; until then the one from before is shown."})
		}
	}
	return all
}

// because is why, behind a sentence.
func because(fault string) string {
	if fault == "" {
		return ""
	}
	return ": " + fault
}

// sharing is the condition of instances with which accounts should be shared and are not.
func (h *Health) sharing() (all []api.Condition) {
	const name, do = "sharing", "See tempomat-doctor status; until then this proxy decides by what it sees itself."
	if h.Trouble != "" {
		return []api.Condition{{Name: name, What: "Accounts are not shared: " + h.Trouble + ".", Do: do}}
	}
	if h.OtherSecret {
		all = append(all, api.Condition{Name: name, What: "Known clients are not shared with all: an instance has another coordination.secret.",
			Do: "Copy the file from one of the others, and reload."})
	}
	some := slices.Contains(slices.Collect(maps.Values(h.Up)), true)
	for _, of := range slices.Sorted(maps.Keys(h.Up)) {
		switch {
		case h.Up[of]:
		case some:
			all = append(all, api.Condition{Name: name, What: fmt.Sprintf("Accounts are shared by the other master only: %s can't be reached.", of), Do: "Start it again, before the other one ends."})
		default:
			all = append(all, api.Condition{Name: name, What: fmt.Sprintf("Accounts are not shared: %s can't be reached.", of), Do: do})
		}
	}
	return append(all, h.Drift...)
}
