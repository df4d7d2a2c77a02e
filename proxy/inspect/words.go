package inspect

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"tempomat/classify"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
)

// summary describes in one sentence what happens to the subject at this moment, and why.
func (e *explanation) summary(of string) string {
	next := e.next()
	switch {
	case next != nil:
		why, _ := reason(next)
		why += before(next.Before)
		if e.waits == 1 {
			return fmt.Sprintf("One of its requests has been waiting for %s: %s.", spanOf(next.Waited), why)
		}
		return fmt.Sprintf("%d of its requests are waiting, the first for %s. The next one to go is waiting because %s.",
			e.waits, span(e.now.Sub(e.waiting[0].Arrived).Seconds()), why)
	case e.runs > 0:
		return fmt.Sprintf("None of its requests is waiting; %s at the backend.", plural(e.runs, "request is", "requests are")) + e.latest()
	case e.kind == "request" && len(e.reply.Recent) > 0:
		return "It has ended: " + ended(&e.reply.Recent[0]) + "."
	case !e.known && len(e.reply.Recent) == 0:
		return fmt.Sprintf("Nothing is known about %s: %s.", of, map[string]string{
			"address": "it sent no request recently. A request from it would be served at once, or, if there is no room, wait with those of all unknown clients",
			"network": "no request from there is waiting or running, and no class charges exactly that network",
			"agent":   "no such program was seen recently. Give the exact User-Agent, or its family as in the table userAgent",
			"page":    "no such page was requested recently. Its cost would be a guess",
			"request": "it is not waiting or running, and is not among the latest requests that were refused, redirected or late. To search the log, run: journalctl -u tempomat-proxy -g " + of,
		}[e.kind])
	case len(e.owing) > 0 && !e.exempt:
		o := e.owing[0]
		return fmt.Sprintf("None of its requests is waiting or running; %s %s owes %s, which will be paid in %s.", o.Class, o.ID, cpuSeconds(-o.Level), span(o.Paid)) + e.latest()
	case e.kind == "page":
		return "No request for it is waiting or running at this moment." + e.latest()
	default:
		return "None of its requests is waiting or running, and it owes nothing." + e.latest()
	}
}

// latest describes the subject's latest notable request, which may be the reason for the question.
func (e *explanation) latest() string {
	if len(e.reply.Recent) == 0 {
		return ""
	}
	v := &e.reply.Recent[0]
	return fmt.Sprintf(" Of its requests that failed, waited long, or were refused or redirected, the latest ended %s ago: %s.", span(max(0, float64(e.now.UnixMilli())/1000-v.At)), ended(v))
}

// next returns the Outlook of the subject's first waiting request, or nil.
func (e *explanation) next() (next *limiter.Outlook) {
	for i := range e.waiting {
		o := &e.waiting[i].Outlook
		if o.Waits && (next == nil || o.Before >= 0 && (next.Before < 0 || o.Before < next.Before)) {
			next = o
		}
	}
	return next
}

// before describes how many requests go first. A negative number means that the number is unknown.
func before(n int) string {
	switch {
	case n < 0:
		return ""
	case n == 0:
		return "; it is next among requests of its size"
	}
	return "; " + plural(n, "request goes", "requests go") + " before it"
}

// ended describes how a request ended.
func ended(v *api.VerdictRow) string {
	was := map[string]string{
		"answered": "it was answered", "refused": "it was refused", "redirected": "it was redirected and got a pass to come back with",
		"client gone": "its client disconnected before it was answered", "backend down": "there was no connection to the backend",
		"backend slow": "the backend did not answer in time", "backend broke": "the backend cut off its answer",
	}[v.Outcome]
	if v.Status > 0 {
		was += fmt.Sprintf(" (status %d)", v.Status)
	}
	if v.Waited > 0 {
		was += ", after it had waited for " + span(v.Waited)
	}
	if v.Shadow {
		was += "; without shadow mode it would have waited or been refused"
	}
	why := map[string]string{
		"": "", "none": "",
		"debt":        fmt.Sprintf("%s %s owed more than allowed", v.Class, v.Key),
		"client full": "its client already had as many requests with long headers as one client may have",
		"server full": "the queue was full",
		"busy":        "the backend had no room for it",
		"newcomer":    "the backend had no room for it, and its client was unknown. A browser comes back at once, and waits among the newcomers",
	}
	text, ok := why[v.Reason]
	if !ok {
		text = fmt.Sprintf("the request limit %s was reached", strings.TrimPrefix(v.Reason, "limit "))
	}
	if text == "" {
		return was
	}
	return was + ". Why: " + text
}

// advise adds advice on how to change the situation of the subject.
func (e *explanation) advise() {
	if e.exempt {
		return
	}
	if o := e.next(); o != nil {
		if o.Stranger {
			e.tell("A client that logs in, or brings back a cookie from the site, gets a turn of its own.")
		}
		if _, advice := reason(o); advice != "" {
			e.tell("%s", advice)
		}
	}
	for _, o := range e.owing[:min(mostDebts, len(e.owing))] {
		e.tell("The debt of %s %s will be paid in %s if no more requests come. To cancel it: tempomat-doctor forgive %s %s",
			o.Class, o.ID, span(o.Paid), o.Class, shellWord(o.ID))
	}
	if e.kind == "address" && len(e.keys) > 0 && e.waits+len(e.owing) > 0 {
		e.tell("To let this address through for an hour: tempomat-doctor pin %s %s", e.keys[0].Class, shellWord(e.keys[0].ID))
		if e.isTrusted() {
			return
		}
		e.tell("To let it through permanently: add it to standing.trusted in the configuration. Each client behind it then counts as known, and is still charged.")
	}
}

// mostDebts is how many debts the advice is about.
const mostDebts = 2

// tell adds a piece of advice.
func (e *explanation) tell(format string, args ...any) {
	e.reply.Advice = append(e.reply.Advice, fmt.Sprintf(format, args...))
}

// lightest is the cost up to which a request counts as short.
const lightest = 100 * time.Millisecond

// reason returns, in plain words, why a request waits and how to end the wait. why is a clause without a full
// stop, and advice is one or more sentences. Both may contain a key that a client has chosen, so programs that
// show them must escape them.
func reason(o *limiter.Outlook) (why, advice string) {
	const (
		workers = "It runs when requests that hold workers end. If your web server has more workers than tempomat-doctor top --pane gate shows, set backend.workers to their number."
		turn    = "It runs when its turn comes. Clients that ask for less go sooner. A higher share for its class, or more CPUs, would also help."
		ahead   = "Its client, or all strangers together, used more than one share of the CPUs. The difference shrinks while the request waits."
	)
	sizes := "requests of any size"
	if o.Size > 0 {
		sizes = "requests of up to " + spanOf(o.Size)
	}
	had := "strangers share one turn"
	if !o.Stranger {
		had = fmt.Sprintf("its client has used %.1f CPU-seconds more than its share", o.Lead)
	}
	switch o.Barrier {
	case limiter.Owes:
		return fmt.Sprintf("%s %s owes CPU time; the debt is paid in about %s", o.Key.Class, o.Key.ID, spanOf(o.Paid)), ""
	case limiter.BehindOwn:
		return plural(o.Have, "request of the same client goes", "requests of the same client go") + " first",
			"The client sends more requests at a time than it gets served. With fewer at a time, each request waits less."
	case limiter.KeyHolds:
		return fmt.Sprintf("%s %s holds its part of the workers: %d of %d", o.Key.Class, o.Key.ID, o.Have, o.Most),
			fmt.Sprintf("It runs when a request of %s %s at the backend ends.", o.Key.Class, o.Key.ID)
	case limiter.StrangersHold:
		return fmt.Sprintf("strangers hold their part of the workers: %d of %d", o.Have, o.Most), workers
	case limiter.Misjudged:
		return "requests that turned out to be long hold the workers that are kept for short ones", workers
	case limiter.NoWorker:
		if o.Size == 0 || o.Size > lightest {
			return fmt.Sprintf("the free workers are kept for shorter requests: %d of %d are held by requests that are as long or longer", o.Have, o.Most), workers
		}
		return fmt.Sprintf("all workers are busy: %d of %d", o.Have, o.Most), workers
	case limiter.NoRoom:
		return fmt.Sprintf("the CPUs are busy: %d of at most %d %s are computing", o.Have, o.Most, sizes), turn
	case limiter.Turn:
		if o.Stranger {
			return had + ", and other strangers go first", turn
		}
		return "clients that used less, or came earlier, go first", turn
	case limiter.RoomForOthers:
		return fmt.Sprintf("%s, and the free CPUs are kept for clients that used less: %d of at most %d %s are computing", had, o.Have, o.Most, sizes), ahead
	case limiter.LeavesCPU:
		return had + ", and other requests leave no CPU for a long one", ahead
	case limiter.CostUnknown:
		return "the cost of its page is unknown, and such requests are tried one at a time",
			"Once such pages have been answered a few times, their cost is known, and the request waits only for room for its size."
	case limiter.SiteAhead:
		return fmt.Sprintf("the site %s has had its share of the CPUs, and other sites go first", cmp.Or(o.Site, "others")),
			"It runs when the other sites have had their share, or need less. A higher share for its site in the configuration lets it run sooner."
	default:
		return "", ""
	}
}

// cpuSeconds formats an amount of CPU time.
func cpuSeconds(x float64) string {
	switch {
	case x < 0.1:
		return fmt.Sprintf("%.0f CPU-ms", 1000*x)
	case x < 10:
		return fmt.Sprintf("%.2f CPU-s", x)
	}
	return fmt.Sprintf("%.0f CPU-s", x)
}

// span formats a duration in seconds.
func span(seconds float64) string {
	switch {
	case seconds < 1:
		return fmt.Sprintf("%.0f ms", 1000*seconds)
	case seconds < 100:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 100*60:
		return fmt.Sprintf("%.0f min", seconds/60)
	case seconds < 72*3600:
		return fmt.Sprintf("%.0f h", seconds/3600)
	}
	return fmt.Sprintf("%.0f days", seconds/86400)
}

func spanOf(d time.Duration) string { return span(d.Seconds()) }

// plural formats a number of things.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// evidenceWords describes evidence in words. It returns an empty string if there is none.
func evidenceWords(e classify.Evidence) string {
	var words []string
	for _, x := range []struct {
		kind classify.Evidence
		says string
	}{
		{classify.Cookie, "it brings back the site's cookies"},
		{classify.Parts, "it loads the style sheets and images of its pages"},
		{classify.Attested, "the site, the configuration or a pin vouches for it"},
		{classify.Verified, "it is the robot that it claims to be"},
		{classify.Forged, "it claims to be a robot that it isn't, so nothing else counts"},
	} {
		if e&x.kind != 0 {
			words = append(words, x.says)
		}
	}
	return strings.Join(words, "; ")
}

// shellWord quotes a text for a shell. A client may have chosen the text, and an administrator may copy a
// command that contains it.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:/_-"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
