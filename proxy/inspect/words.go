package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tempomat/classify"
	"tempomat/limiter"
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
		*s = fmt.Sprintf("None of its requests waits; %s at the backend.", are(e.runs))
	case e.kind == "request" && len(e.reply.Recent) > 0:
		*s = "It is over: " + ended(&e.reply.Recent[0]) + "."
	case !e.known && len(e.reply.Recent) == 0:
		*s = e.unknown(of)
	case len(e.owing) > 0 && !e.exempt:
		o := e.owing[0]
		*s = fmt.Sprintf("None of its requests waits or runs; %s %s owes %s, which are paid in %s.", o.key.Class, o.key.ID, cpuSeconds(o.debt), span(o.paid))
	case e.kind == "page":
		*s = "No request for it waits or runs at this moment."
	default:
		*s = "None of its requests waits or runs, and it owes nothing."
	}
}

// ended describes how a request ended.
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

// reasonWords is why a request was delayed or refused.
func reasonWords(v *api.VerdictRow) string {
	switch v.Reason {
	case "none":
		return ""
	case "debt":
		return fmt.Sprintf("%s %s owed more than it may", v.Class, v.Key)
	case "client full":
		return "its client had as many requests with long headers under way as one may"
	case "server full":
		return "as many requests waited as may in all"
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

// unknown explains why nothing is known.
func (e *explanation) unknown(of string) string {
	means := "it asked for nothing recently. A request from it would be served at once, or, if there is no room, wait with those of all unknown clients"
	switch e.kind {
	case "network":
		means = "no request from there waits or runs, and no class charges exactly that network"
	case "agent":
		means = "no such program was seen recently; give a User-Agent as it came, or its family as the table userAgent shows it"
	case "page":
		means = "no such page was asked for recently; its cost would be a guess"
	case "request":
		means = "it does not wait or run, and is not among the last that were refused, redirected or late; the log may have it"
	}
	return fmt.Sprintf("Nothing is known of %s: %s.", of, means)
}

// advise adds what would change it.
func (e *explanation) advise() {
	if e.exempt {
		return
	}
	if o := e.next(); o != nil {
		e.adviseOn(o)
	}
	for _, o := range e.owing[:min(mostDebts, len(e.owing))] {
		e.tell("The debt of %s %s is paid in %s if no more requests come. To take it away: tempomat-doctor forgive %s %s",
			o.key.Class, o.key.ID, span(o.paid), o.key.Class, shellWord(o.key.ID))
	}
	if e.kind != "address" || len(e.keys) == 0 || e.waits == 0 && len(e.owing) == 0 {
		return
	}
	e.tell("To let this address through for an hour: tempomat-doctor pin %s %s", e.keys[0].Class, shellWord(e.keys[0].ID))
	if e.shared {
		e.tell("Several clients share this address. To let them through for good: add it to standing.trusted in the configuration; each of them then counts as known, and is still charged.")
	} else {
		e.tell("To let it through for good: add it to standing.trusted in the configuration; it then counts as known, and is still charged.")
	}
}

// mostDebts is how many debts are advised on, those first that it has for certain.
const mostDebts = 2

// adviseOn adds what would end a request's wait.
func (e *explanation) adviseOn(o *limiter.Outlook) {
	if o.Stranger {
		e.tell("A client that logs in, or brings back a cookie of the site, gets a turn of its own.")
	}
	switch o.Barrier {
	case limiter.BehindOwn:
		e.tell("The client asks for more at a time than it gets: with fewer requests at a time, each waits less.")
	case limiter.KeyHolds:
		e.tell("%s %s gets more workers when requests that it has at the backend end.", o.Key.Class, o.Key.ID)
	case limiter.StrangersHold, limiter.NoWorker, limiter.Misjudged:
		e.tell("It goes when requests that hold workers end. If your web server has more workers than tempomat-doctor top --pane gate shows, set backend.workers to their number.")
	case limiter.Untried:
		e.tell("Once such pages have been answered a few times, their cost is known, and it waits only for room of its size.")
	case limiter.NoRoom, limiter.Turn:
		e.tell("It goes when its turn comes. A client that asks for less goes sooner; a higher share of its class, or more CPUs, help as well.")
	case limiter.SiteAhead:
		e.tell("Its site has had its share. It goes when the other sites have had theirs, or want less; a higher share under sites in the configuration lets it go sooner.")
	case limiter.RoomForOthers, limiter.LeavesCPU:
		e.tell("The client, or its kind of client, has had more than its share. That evens out while it waits.")
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
const mostAdvice = 5

// lightest is the size up to which a request is short.
const lightest = 100 * time.Millisecond

// why says in plain words why the request waits, without a full stop. It names a key,
// which a client may have chosen: who shows it has to see to it that it does no harm.
func why(o *limiter.Outlook) string {
	switch o.Barrier {
	case limiter.Owes:
		return fmt.Sprintf("%s %s owes CPU time; its debt is paid in about %s", o.Key.Class, o.Key.ID, spanOf(o.Paid))
	case limiter.BehindOwn:
		if o.Have == 1 {
			return "one of its client's own requests of its size goes first"
		}
		return fmt.Sprintf("%d of its client's own requests of its size go first", o.Have)
	case limiter.KeyHolds:
		return fmt.Sprintf("%s %s holds its part of the workers: %d of %d", o.Key.Class, o.Key.ID, o.Have, o.Most)
	case limiter.StrangersHold:
		return fmt.Sprintf("strangers hold their part of the workers: %d of %d", o.Have, o.Most)
	case limiter.Misjudged:
		return "requests that came as short ones, and are not, hold the workers that are kept for short ones"
	case limiter.SiteAhead:
		return fmt.Sprintf("%s has had its share of the CPUs, and leaves room to the other sites", siteOf(o))
	case limiter.NoRoom:
		return fmt.Sprintf("as many requests %s compute as may: %d of %d", sizesOf(o), o.Have, o.Most)
	case limiter.RoomForOthers:
		return fmt.Sprintf("%s, and the room that is left is for those who had less: %d of %d compute %s", aheadOf(o), o.Have, o.Most, sizesOf(o))
	case limiter.NoWorker:
		if o.Size == 0 || o.Size > lightest {
			return fmt.Sprintf("the workers that are left are kept for shorter requests: %d of %d are held as long or longer", o.Have, o.Most)
		}
		return fmt.Sprintf("all workers are busy: %d of %d", o.Have, o.Most)
	case limiter.Untried:
		return "the cost of its page is unknown, and only one such request is tried at a time"
	case limiter.LeavesCPU:
		return fmt.Sprintf("%s, and what others use leaves no CPU for a long request", aheadOf(o))
	case limiter.Turn:
		if o.Stranger {
			return "strangers share one turn, and others of them go first"
		}
		return "others go first, who had less or came earlier"
	default:
		return ""
	}
}

// site names the request's site.
func siteOf(o *limiter.Outlook) string {
	if o.Site == "" {
		return "what is no named site"
	}
	return "its site " + o.Site
}

// ahead names the client that had more than its share.
func aheadOf(o *limiter.Outlook) string {
	if o.Stranger {
		return "strangers share one turn"
	}
	return fmt.Sprintf("its client has had %.1f CPU-seconds more than its share", o.Lead)
}

// sizes names the sizes that count together.
func sizesOf(o *limiter.Outlook) string {
	if o.Size == 0 {
		return "of any size"
	}
	return "of up to " + spanOf(o.Size)
}

// cpuSeconds is an amount of CPU time.
func cpuSeconds(x float64) string {
	switch {
	case x < 0.1:
		return fmt.Sprintf("%.0f CPU-ms", 1000*x)
	case x < 10:
		return fmt.Sprintf("%.2f CPU-s", x)
	}
	return fmt.Sprintf("%.0f CPU-s", x)
}

// span is a duration.
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

// evidenceWords describes the evidence.
func evidenceWords(e classify.Evidence) string {
	var words []string
	for _, x := range []struct {
		kind classify.Evidence
		says string
	}{
		{classify.Cookie, "it brings back the site's cookies"},
		{classify.Parts, "it loads the style sheets and images of its pages"},
		{classify.Attested, "the site, the configuration or a pin vouches for it"},
		{classify.Contradiction, "its headers are not those of the browser that it claims to be"},
		{classify.Verified, "it is the robot that it claims to be"},
		{classify.Forged, "it claims to be a robot that it isn't, so nothing else counts"},
	} {
		if e&x.kind != 0 {
			words = append(words, x.says)
		}
	}
	if len(words) == 0 {
		return "nothing speaks for a person's browser, or against it"
	}
	return strings.Join(words, "; ")
}

// shellWord is a text as one word of a shell's command line, whatever is in it: a client
// may have chosen it, and an administrator may copy the line.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:/_-"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// sentence makes one of words.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}
