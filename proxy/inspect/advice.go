package inspect

import (
	"fmt"
	"slices"
	"strings"

	"tempomat/limiter"
	"tempomat/proxy"
	"tempomat/proxy/admin/api"
)

// summary is what happens to it at this moment, and why, in one sentence.
func (e *explanation) summary(of string) {
	s := &e.reply.Summary
	switch next := e.next(); {
	case next != nil && e.waits == 1:
		*s = fmt.Sprintf("One of its requests waits, for %s: %s%s.", spanOf(next.Waited), why(next), before(next.Before))
	case next != nil:
		*s = fmt.Sprintf("%d of its requests wait, the first for %s. Of the next one to go: %s%s.",
			e.waits, span(e.now.Sub(e.waiting[0].Arrived).Seconds()), why(next), before(next.Before))
	case e.runs > 0:
		*s = fmt.Sprintf("Nothing of it waits; %s at the backend.", are(e.runs))
	case e.kind == "request" && len(e.reply.Recent) > 0:
		*s = "It is over: " + ended(&e.reply.Recent[0]) + "."
	case !e.known && len(e.reply.Recent) == 0:
		*s = e.unknown(of)
	case len(e.owing) > 0:
		o := e.owing[0]
		*s = fmt.Sprintf("Nothing of it waits or runs; %s %s owes %s, which are paid in %s.", o.key.Class, o.key.ID, cpuSeconds(o.debt), span(o.paid))
	case e.kind == "page":
		*s = "Nobody waits for it or gets it at this moment."
	default:
		*s = "Nothing of it waits or runs, and it owes nothing."
	}
}

// ended says what became of a request.
func ended(v *api.VerdictRow) string {
	was := map[string]string{
		"answered": "it was answered", "refused": "it was refused", "redirected": "it was redirected, to come back with a pass",
		"client gone": "its client left before it was answered", "backend down": "there was no connection to the backend",
		"backend slow": "the backend did not answer in time", "backend broke": "the backend broke its answer off",
	}[v.Outcome]
	if v.Status > 0 {
		was += fmt.Sprintf(" (status %d)", v.Status)
	}
	if v.Waited > 0 {
		was += ", after it had waited for " + span(v.Waited)
	}
	if v.Shadow {
		was += "; it was only judged, and would have waited or been refused"
	}
	if why := reasonWords(v); why != "" {
		was += ". Why: " + why
	}
	return was
}

// reasonWords says why a request was delayed or refused.
func reasonWords(v *api.VerdictRow) string {
	switch v.Reason {
	case "none":
		return ""
	case "debt":
		return fmt.Sprintf("%s %s owed more than it may", v.Class, v.Key)
	case "client full":
		return "its client had as many requests with long headers under way as one may"
	case "server full":
		return "as many requests waited as may in all (throttle.maxHeld)"
	case "busy":
		return "the backend had no room for it"
	case "newcomer":
		return "the backend had no room for it, and nothing was known of its client: a browser comes back at once, and waits among the newcomers"
	}
	if name, ok := strings.CutPrefix(v.Reason, "limit "); ok {
		return "the request limit " + name + " allows no more for now"
	}
	return v.Reason
}

// next is the outlook of the one that goes next of those that wait; nil: none does.
func (e *explanation) next() (next *limiter.Outlook) {
	for i := range e.waiting {
		o := &e.waiting[i].Outlook
		if o.Waits && (next == nil || o.Before >= 0 && (next.Before < 0 || o.Before < next.Before)) {
			next = o
		}
	}
	return next
}

func are(n int) string {
	if n == 1 {
		return "one request is"
	}
	return fmt.Sprintf("%d requests are", n)
}

// unknown says what it means that nothing is known.
func (e *explanation) unknown(of string) string {
	means := "it asked for nothing lately; if it came now it would be served at once, or, if there is no room, wait with all strangers"
	switch e.kind {
	case "network":
		means = "nobody from there waits or is served, and no class charges just that network"
	case "agent":
		means = "no such program was seen lately; give a User-Agent as it came, or its family as the table userAgent shows it"
	case "page":
		means = "nobody asked for it or for the like of it lately; its cost would be a mere guess"
	case "request":
		means = "it does not wait or run, and is not among the last that were refused, redirected or late; the log may have it"
	}
	return fmt.Sprintf("Nothing is known of %s: %s.", of, means)
}

// advise says what would change it.
func (e *explanation) advise() {
	for i := range e.waiting {
		if u := &e.waiting[i]; u.Outlook.Waits {
			e.adviseOn(u)
		}
	}
	for _, o := range e.owing {
		e.tell("The debt of %s %s is paid in %s if it asks for nothing more; to take it away: tempomat-doctor forgive %s %s.",
			o.key.Class, o.key.ID, span(o.paid), o.key.Class, shellWord(o.key.ID))
	}
	if e.kind == "address" && len(e.keys) > 0 && (e.waits > 0 || len(e.owing) > 0) {
		e.tell("To let it through for an hour: tempomat-doctor pin %s %s --standing 8 --for 1h. For good: add it to exempt in the configuration.",
			e.keys[0].Class, e.keys[0].ID)
	}
}

// adviseOn says what would have a request wait no longer.
func (e *explanation) adviseOn(u *proxy.Underway) {
	o := &u.Outlook
	if o.Stranger {
		e.tell("It counts as a stranger: who logs in, or comes back with a cookie of the site, has a turn of its own.")
	}
	switch o.Barrier {
	case limiter.BehindOwn:
		e.tell("Its client asks for more at a time than it gets: fewer requests at a time would wait less.")
	case limiter.KeyHolds:
		e.tell("%s %s gets further workers when requests that it has at the backend end.", o.Key.Class, o.Key.ID)
	case limiter.StrangersHold, limiter.NoWorker, limiter.Misjudged:
		e.tell("It goes when requests that hold workers end; more workers of the backend would let it go sooner.")
	case limiter.Untried:
		e.tell("Once the like of its page was answered a few times, its cost is known, and it waits only for room of its size.")
	case limiter.NoRoom, limiter.Turn:
		e.tell("It goes when it is its turn: the less its client asks for, the sooner. A higher share of its class, or more CPUs, would help.")
	case limiter.SiteAhead:
		e.tell("All requests for its site have had its share: it goes as other sites have had theirs, or want less. A higher share under sites in the configuration would let it go sooner.")
	case limiter.RoomForOthers, limiter.LeavesCPU:
		e.tell("Its client, or its kind of client, has had more than its share: that evens out while it waits.")
	default:
	}
}

// tell gives a piece of advice, once.
func (e *explanation) tell(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !slices.Contains(e.reply.Advice, s) && len(e.reply.Advice) < mostAdvice {
		e.reply.Advice = append(e.reply.Advice, s)
	}
}

// mostAdvice is how many pieces are given.
const mostAdvice = 8
