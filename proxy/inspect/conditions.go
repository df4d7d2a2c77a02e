package inspect

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"tempomat/proxy/admin/api"
)

// Health is the state of the proxy in which Conditions looks for problems.
type Health struct {
	Overview     *api.OverviewReply
	Backend      string // backend.url
	Certificates []api.Certificate
	Connections  int // number of open connections
	MostOpen     int // largest allowed number of open connections
	LostLines    uint64
	WhyLost      error           // why the last line of the log was lost; nil: no line was lost recently
	Trouble      string          // why accounts aren't shared although they should be
	Up           map[string]bool // whether the proxy reaches each instance or master with which it shares accounts, by name
	OtherSecret  bool            // whether an instance has a different coordination.secret
	Drift        []api.Condition // settings in which instances differ
	Rejected     bool            // whether the last reload was rejected
	Strict       string          // why strict limits aren't enforced
}

const (
	mostFail    = 0.5                 // part of the requests that must get no answer before the backend counts as down
	someFail    = 0.05                // part of the requests that must fail before errors are reported, and before 504s count as affecting visitors
	fewErrors   = 2                   // minimum number of 5xx to report
	idle        = 0.7                 // use of the CPUs below which no request waits for one
	longWait    = 2.0                 // shortest wait that is reported, in seconds
	renewBefore = 14 * 24 * time.Hour // time before expiry by which certificates should have been renewed; ACME renews 90-day certificates 30 days before
)

// conditions collects conditions.
type conditions []api.Condition

func (l *conditions) add(bad bool, name, do, what string, args ...any) {
	*l = append(*l, api.Condition{Name: name, Bad: bad, What: fmt.Sprintf(what, args...), Do: do})
}

// Conditions lists current problems: first those that visitors notice, then those that cause losses or make
// tempomat work less well. Each condition names one action. The doctor's top and status, the dashboard and
// /v1/ready all show this list.
func Conditions(now time.Time, h *Health) []api.Condition {
	l := new(conditions)
	h.backend(l)
	h.workers(l)
	if h.MostOpen > 0 && h.Connections >= h.MostOpen {
		l.add(true, "connections-full", "Run tempomat-doctor status to see which addresses hold the connections. If they are visitors, raise LimitNOFILE or give the proxy more memory.",
			"All %d connections are in use, so each new one replaces another.", h.MostOpen)
	}
	if h.WhyLost != nil {
		l.add(false, "log-lost", "Free up space on the log's disk, or restart the program that reads the log.", "The log is losing lines, %d so far: %v.", h.LostLines, h.WhyLost)
	}
	h.certificates(now, l)
	h.sharing(l)
	if h.Strict != "" {
		l.add(false, "strict-limits", "Check the address, password and port of Redis. Until it answers, these limits let all requests pass.", "Limits with strict: true aren't enforced, because Redis can't be reached: %s.", h.Strict)
	}
	if h.Rejected {
		l.add(false, "reload-rejected", "Run tempomat-proxy -check, correct the file, and reload again.", "The last reload was rejected, so the previous configuration stays in use.")
	}
	api.WorstFirst(*l)
	return *l
}

// backend adds conditions for requests that the backend didn't answer, or answered with an error.
func (h *Health) backend(l *conditions) {
	b := &h.Overview.Backend
	of := func(n int) string {
		return fmt.Sprintf("%d of %d requests in the last %.0f s", n, b.Requests, b.Seconds)
	}
	switch {
	case b.Down == 0:
	case float64(b.Down) >= mostFail*float64(b.Requests):
		l.add(true, "backend-down", "Start your web server, or check that it listens on "+h.Backend+" (backend.url). The log shows the error.",
			"The backend is down: %s got 502.", of(b.Down))
	default:
		l.add(true, "backend-drops", "Check the error log of your web server: the server may be restarting, or have no room for more connections.",
			"The backend drops connections: %s got 502.", of(b.Down))
	}
	if b.Slow > 0 { // a few may be one client's exports, which are no reason to wake an administrator
		l.add(float64(b.Slow) >= someFail*float64(b.Requests), "backend-slow", "Find out what your web server is waiting for: check its error log and its database.", "The backend doesn't answer in time: %s got 504.", of(b.Slow))
	}
	if b.Broke > 0 {
		l.add(true, "backend-breaks", "Check the error log of your web server: processes are crashing or timing out.", "The backend cuts off its answers: %s got an incomplete page.", of(b.Broke))
	}
	if b.Errors >= fewErrors && float64(b.Errors) >= someFail*float64(b.Requests) {
		l.add(true, "errors", "Check the error log of your web server and of the application.", "The site answers with errors: %s got a status of 500 or more from it.", of(b.Errors))
	}
}

// workers adds a condition if requests wait a long time for workers while CPUs are idle. It checks only mode
// fair, because in other modes requests wait on purpose until debts are paid.
func (h *Health) workers(l *conditions) {
	o := h.Overview
	g := &o.Gate
	used, longest := max(g.Utilisation, o.Use), 0.0
	for _, x := range o.Groups {
		longest = max(longest, x.Longest)
	}
	if o.Mode != "fair" || g.Queued == 0 || g.Workers == 0 || g.Utilisation < 0 || used >= idle || longest < longWait {
		return
	}
	held := fmt.Sprintf("all %d workers are in use", g.Workers)
	if g.Busy < g.Workers {
		held = fmt.Sprintf("%d of %d workers are in use; the others are kept for shorter requests", g.Busy, g.Workers)
	}
	l.add(true, "workers-held", "If your web server has more workers, set backend.workers to their number. tempomat-doctor top shows which pages hold the workers.",
		"%s for workers, not for CPUs (%.0f %% in use): %s.", plural(g.Queued, "request is waiting", "requests are waiting"), 100*used, held)
}

// certificates adds conditions for certificates that are missing, have expired, or weren't renewed in time.
func (h *Health) certificates(now time.Time, l *conditions) {
	const renew = "Renew the certificate: tempomat picks up the new file automatically."
	for _, c := range h.Certificates {
		fault, left := "", c.Expires.Sub(now)
		if c.Fault != "" {
			fault = ": " + c.Fault
		}
		switch {
		case c.Expires.IsZero():
			l.add(true, "certificate-missing", "Browsers can't connect without it. Correct the file, or the ACME error that the log shows.", "There is no certificate for %s%s.", c.File, fault)
		case left <= 0:
			l.add(true, "certificate-ended", renew, "The certificate %s expired %s ago%s.", c.File, spanOf(-left), fault)
		case left < renewBefore:
			l.add(left < renewBefore/7, "certificate-ends", renew, "The certificate %s expires in %s%s.", c.File, spanOf(left), fault)
		case c.Fault != "":
			l.add(false, "certificate-faulty", "Correct the file. Until then, clients get the previous certificate.", "The new certificate in %s is not in use%s.", c.File, fault)
		}
	}
}

// sharing adds conditions for instances and masters that should share accounts but don't.
func (h *Health) sharing(l *conditions) {
	const name, do = "sharing", "Run tempomat-doctor status for details. Until accounts are shared, this proxy counts only its own requests."
	if h.Trouble != "" {
		l.add(false, name, do, "Accounts are not shared: %s.", h.Trouble)
		return
	}
	if h.OtherSecret {
		l.add(false, name, "Copy the file to that instance from another one, and reload.", "Known clients are not shared with all instances: one has a different coordination.secret.")
	}
	some := slices.Contains(slices.Collect(maps.Values(h.Up)), true)
	for _, of := range slices.Sorted(maps.Keys(h.Up)) {
		switch {
		case h.Up[of]:
		case some:
			l.add(false, name, "Start this master again before the other one stops.", "Only the other master shares accounts: %s can't be reached.", of)
		default:
			l.add(false, name, do, "Accounts are not shared: %s can't be reached.", of)
		}
	}
	*l = append(*l, h.Drift...)
}
