package inspect

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"tempomat/classify"
	"tempomat/classify/standing"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

const (
	// mostAsked is how many bytes may be asked for.
	mostAsked = 2048
	// mostOf is how many of its requests are looked at, and mostListed how many are listed.
	mostOf     = 20
	mostListed = 5
)

// subject is what is asked for.
type subject struct {
	kind     string
	keys     []limiter.Key // that it has for certain
	address  netip.Addr    // of kind address
	url      *url.URL      // of kind page
	match    func(*proxy.Underway) bool
	verdicts func(*api.VerdictRow) bool
}

// Explain tells what is known of an address, a network, a User-Agent, a path or URL, or
// of a request by its id. Its error says what cannot be asked for.
func (i *Inspector) Explain(now time.Time, of string) (api.ExplainReply, error) {
	s, err := i.subject(of)
	if err != nil {
		return api.ExplainReply{}, err
	}
	waiting, waits := i.Requests.WhoWaits(now, mostOf, s.match)
	running, runs := i.Requests.WhoRuns(mostOf, s.match)
	e := explanation{
		Inspector: i, now: now, subject: s, waiting: waiting, running: running, waits: waits, runs: runs,
		reply: api.ExplainReply{
			Version: api.Version, Of: of, Kind: s.kind, Sections: []api.ExplainSection{}, Advice: []string{},
			Waits: waits, Waiting: []api.WaiterRow{}, Recent: Grouped(i.recents(mostRecent, s.verdicts), mostListed),
		},
	}
	for k := range waiting[:min(mostListed, len(waiting))] {
		e.reply.Waiting = append(e.reply.Waiting, waiter(now, &waiting[k]))
	}
	e.standing()
	e.present()
	e.accounts()
	e.page()
	e.summary(of)
	e.advise()
	return e.reply, nil
}

// subject finds out what is asked for.
func (i *Inspector) subject(of string) (subject, error) {
	switch {
	case strings.TrimSpace(of) == "":
		return subject{}, errors.New("of: nothing is asked for; give an address, a network, a User-Agent, a path, a URL or the id of a request")
	case len(of) > mostAsked:
		return subject{}, fmt.Errorf("of: it has %d bytes; at most %d are allowed", len(of), mostAsked)
	}
	classifier := i.Requests.Policy().Classifier
	if a, err := netip.ParseAddr(strings.Trim(of, "[]")); err == nil {
		a = a.Unmap().WithZone("")
		return subject{
			kind: "address", address: a, keys: classifier.NetworkKeys(a),
			match:    func(u *proxy.Underway) bool { return u.Client == a },
			verdicts: func(v *api.VerdictRow) bool { return v.Client == a.String() },
		}, nil
	}
	if p, err := netip.ParsePrefix(of); err == nil {
		return i.network(p.Masked()), nil
	}
	if u, ok := pageOf(of); ok {
		return subject{
			kind: "page", url: u,
			match:    func(x *proxy.Underway) bool { return x.Shape == of || samePage(u, x.Host, x.Target) },
			verdicts: func(v *api.VerdictRow) bool { return v.Shape == of || samePage(u, v.Host, v.URL) },
		}, nil
	}
	if s := request(of); isID(of) || i.finds(s) {
		return s, nil
	}
	family, keys := classifier.AgentKeys(of)
	if robots := i.Requests.Policy().Robots; robots != nil {
		if k, ok := robots.AccountOf(of); ok {
			keys = append([]limiter.Key{k}, keys...)
		}
	}
	return subject{
		kind: "agent", keys: keys, match: func(u *proxy.Underway) bool { return u.Agent == family },
		verdicts: func(v *api.VerdictRow) bool { return v.Agent == family },
	}, nil
}

// network is a network as asked for. Those keys are its that a class has for just it.
func (i *Inspector) network(p netip.Prefix) subject {
	s := subject{
		kind:  "network",
		match: func(u *proxy.Underway) bool { return p.Contains(u.Client) },
		verdicts: func(v *api.VerdictRow) bool {
			a, err := netip.ParseAddr(v.Client)
			return err == nil && p.Contains(a)
		},
	}
	for _, k := range i.Requests.Policy().Classifier.NetworkKeys(p.Addr()) {
		if k.ID == p.String() || p.IsSingleIP() && k.ID == p.Addr().String() {
			s.keys = append(s.keys, k)
		}
	}
	return s
}

// pageOf reads a path or URL.
func pageOf(of string) (*url.URL, bool) {
	if !strings.HasPrefix(of, "/") && !strings.HasPrefix(of, "http://") && !strings.HasPrefix(of, "https://") {
		return nil, false
	}
	u, err := url.Parse(of)
	return u, err == nil
}

// pageKind is what the cost of a page is guessed by. Of one that nothing is known of, it is
// that of the first of its requests: whoever asks for a path means it with its parameters.
func (e *explanation) pageKind() (k cpuaccount.Kind, title string) {
	k = cpuaccount.Kind{Shape: classify.ShapeOf(e.url), URL: e.url.RequestURI(), Site: e.Requests.Policy().Classifier.SiteOf(e.url.Host)}
	if known := e.Guess.Known(e.now, k); known.Answers > 0 {
		return k, "The page"
	}
	for _, all := range [][]proxy.Underway{e.waiting, e.running} {
		if len(all) > 0 {
			return all[0].Kind, "The page that the first of them is for"
		}
	}
	if len(e.reply.Recent) > 0 {
		v := &e.reply.Recent[0]
		return cpuaccount.Kind{Shape: v.Shape, URL: v.URL}, "The page that the last of them was for"
	}
	return k, "The page"
}

// samePage reports whether a request is for a page. One that was asked for without
// parameters is that with any.
func samePage(u *url.URL, host, target string) bool {
	if u.Host != "" && !strings.EqualFold(u.Host, host) {
		return false
	}
	if u.RawQuery != "" {
		return target == u.RequestURI()
	}
	path, _, _ := strings.Cut(target, "?")
	return path == u.EscapedPath()
}

// request is the one with an id.
func request(id string) subject {
	return subject{
		kind: "request", match: func(u *proxy.Underway) bool { return u.ID == id },
		verdicts: func(v *api.VerdictRow) bool { return v.ID == id },
	}
}

// finds reports whether there is a request of a subject. The ids of proxies before this one
// can look like anything.
func (i *Inspector) finds(s subject) bool {
	if len(i.recents(1, s.verdicts)) > 0 {
		return true
	}
	if _, n := i.Requests.WhoRuns(1, s.match); n > 0 {
		return true
	}
	_, n := i.Requests.WhoWaits(time.Time{}, 0, s.match)
	return n > 0
}

// isID reports whether a text is the id of a request, as tempomat makes them.
func isID(s string) bool {
	return len(s) == idLength && strings.Trim(s, "0123456789abcdef") == ""
}

// idLength is that of a request's id, in hexadecimal digits.
const idLength = 8

// explanation is one in the making.
type explanation struct {
	*Inspector
	subject
	now              time.Time
	waiting, running []proxy.Underway
	waits, runs      int
	known            bool // anything is known of it
	owing            []owing
	shared           bool // several clients have the address
	exempt           bool // nothing needs to change for it
	reply            api.ExplainReply
}

// owing is a key in debt.
type owing struct {
	key  limiter.Key
	debt float64 // CPU-seconds
	paid float64 // seconds
}

func (e *explanation) add(title string, facts ...api.ExplainFact) {
	if len(facts) > 0 {
		e.reply.Sections = append(e.reply.Sections, api.ExplainSection{Title: title, Facts: facts})
	}
}

// present lists its requests that wait or run.
func (e *explanation) present() {
	if e.waits+e.runs == 0 {
		return
	}
	e.known = true
	orphans := 0
	for i := range e.running {
		if e.running[i].Orphan {
			orphans++
		}
	}
	facts := []api.ExplainFact{
		{Name: "at the backend", Value: plural(e.runs, "request", "requests")},
		{Name: "waiting", Value: plural(e.waits, "request", "requests")},
	}
	if orphans > 0 {
		facts = append(facts, api.ExplainFact{
			Name: "abandoned", Value: fmt.Sprint(orphans),
			Means: "Their clients have disconnected, but the backend still works on them: they hold their workers until it is done.",
		})
	}
	if o := e.next(); o != nil && o.Site != "" {
		facts = append(facts, api.ExplainFact{Name: "site", Value: o.Site})
	}
	e.add("At this moment", facts...)
}

// before is how many go first.
func before(n int) string {
	switch {
	case n < 0:
		return ""
	case n == 0:
		return "; it goes next of its size"
	case n == 1:
		return "; one goes before it"
	}
	return fmt.Sprintf("; %d go before it", n)
}

// accounts lists what its keys owe.
func (e *explanation) accounts() {
	var facts []api.ExplainFact
	for _, k := range e.allKeys() {
		r, ok := e.Ledger.Find(e.now, k)
		if !ok {
			facts = append(facts, api.ExplainFact{Name: k.Class + " " + k.ID, Value: "owes nothing", Means: "It was not charged recently."})
			continue
		}
		e.known = true
		facts = append(facts, e.account(k, &r))
	}
	e.add("Accounts", facts...)
}

// account is what one key owes or has.
func (e *explanation) account(k limiter.Key, r *limiter.Row) api.ExplainFact {
	f := api.ExplainFact{Name: k.Class + " " + k.ID}
	used := fmt.Sprintf("recently %.1f requests a second were charged %.2f CPUs; the share is %.2f CPUs", r.Rate, r.CPU, e.budget(k.Class).CPUs)
	if r.Holds > 0 {
		used += "; " + plural(r.Holds, "worker is", "workers are") + " held by requests that are not short"
	}
	if r.Orphans > 0 {
		used += "; " + plural(r.Orphans, "abandoned request runs", "abandoned requests run") + " on"
	}
	if r.Level < 0 {
		e.owing = append(e.owing, owing{k, -r.Level, r.Paid})
		f.Value = fmt.Sprintf("owes %s, paid in %s", cpuSeconds(-r.Level), span(r.Paid))
		f.Means = sentence(used + "; while the server is busy, its requests count as more expensive than they are")
		return f
	}
	f.Value, f.Means = "has "+cpuSeconds(r.Level)+" saved", sentence(used)
	return f
}

// allKeys are those that it has for certain, and those of its requests under way.
func (e *explanation) allKeys() []limiter.Key {
	keys := append([]limiter.Key{}, e.keys...)
	seen := make(map[limiter.Key]bool, len(keys))
	for _, k := range keys {
		seen[k] = true
	}
	if e.kind != "address" && e.kind != "request" {
		return keys
	}
	for _, all := range [][]proxy.Underway{e.waiting, e.running} {
		for i := range all {
			for _, k := range all[i].Keys {
				if !seen[k] && len(keys) < mostKeys {
					seen[k] = true
					keys = append(keys, k)
				}
			}
		}
	}
	return keys
}

// mostKeys is how many keys are shown.
const mostKeys = 8

// standing is what an address counts as, once, and why.
func (e *explanation) standing() {
	if e.kind != "address" || len(e.keys) == 0 {
		return
	}
	var facts []api.ExplainFact
	r, charged := e.Ledger.Find(e.now, e.keys[0])
	var past *standing.Visits
	if s := e.Requests.Policy().Standing; s != nil {
		if v, ok := s.Visits(e.now, e.keys[0].ID); ok {
			past = &v
			e.known = true
		}
	}
	if as, why := e.countsAs(r.Client, past); as != "" {
		facts = append(facts, api.ExplainFact{Name: "counts as", Value: as, Means: why})
	}
	if past != nil {
		facts = append(facts, visits(e.now, past)...)
		e.shared = e.shared || past.ClientsBehind > 1
	}
	if charged && r.Client != nil && r.Client.Lead > 0 {
		facts = append(facts, api.ExplainFact{
			Name: "ahead of its share", Value: cpuSeconds(r.Client.Lead), Means: "From 0.50 CPU-s on it lets clients go first that had less.",
		})
	}
	e.add("This address", facts...)
}

// countsAs is what an address counts as and why. Nothing else of an explanation says it. What is
// certain for all of its requests comes first, then what those count as that are under way, then
// what is remembered of it. Several clients may share an address: then each request counts by its
// own.
func (e *explanation) countsAs(at *limiter.ClientRow, past *standing.Visits) (as, why string) {
	if e.Requests.Policy().Classifier.Exempts(e.address, &url.URL{Path: "/"}) {
		e.known, e.exempt = true, true
		return "exempt", "The configuration exempts it: it is never charged and never waits."
	}
	for _, p := range e.Pinned.All(e.now) {
		if slices.Contains(e.keys, p.Key) {
			return "pinned", fmt.Sprintf("An administrator gave it %g times its share for another %s.", p.Standing, spanOf(p.Until.Sub(e.now)))
		}
	}
	groups, one := e.groups()
	if len(groups) > 1 {
		e.shared = true
		return "several clients", "Of its requests at this moment, " + strings.Join(groups, ", ") + ". Each counts by its own cookies."
	}
	proves := past != nil && past.Evidence.Proves()
	switch {
	case one != nil && one.Group == telemetry.Known:
		why = "It has a turn of its own"
		if words := evidenceWords(one.Evidence); one.Evidence != 0 {
			why += ": " + words
		}
		return "a known client", why + "."
	case one != nil:
		return groupWords(one.Group.String(), proves)
	case at != nil && at.Known:
		return "a known client", "It has been seen for a while, and has a turn of its own."
	case proves:
		return "a known client", "It has a turn of its own: " + evidenceWords(past.Evidence) + "."
	case len(e.reply.Recent) > 0:
		return groupWords(e.reply.Recent[0].Group, false)
	case at != nil || past != nil:
		return groupWords(telemetry.Stranger.String(), false)
	}
	return "", ""
}

// groups counts its requests under way by group; one is one of these groups.
func (e *explanation) groups() (counts []string, one *proxy.Underway) {
	var n [telemetry.Groups]int
	for _, all := range [][]proxy.Underway{e.running, e.waiting} {
		for i := range all {
			one = &all[i]
			n[one.Group]++
		}
	}
	for _, g := range telemetry.ShownGroups() {
		if n[g] > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n[g], g))
		}
	}
	return counts, one
}

// groupWords says what a group is; proves tells that other requests of the address bring evidence.
func groupWords(group string, proves bool) (as, why string) {
	switch group {
	case telemetry.Robot.String():
		return "a robot", "Its User-Agent names a program, or its address is a robot's."
	case telemetry.Newcomer.String():
		return "a newcomer", "It came back with the cookie that newcomers get, and goes first among strangers."
	case telemetry.Stranger.String():
		why = "While others wait, it shares one turn with all unknown clients. It becomes known after half a minute and five answers, or at once by a cookie of the site that it brings back."
		if proves {
			why += " Other requests from this address have shown that; those at this moment have not."
		}
		return "a stranger", why
	case telemetry.Known.String():
		return "a known client", "It has a turn of its own."
	}
	return group, ""
}

// visits is what is remembered of an address's visits.
func visits(now time.Time, v *standing.Visits) (facts []api.ExplainFact) {
	if v.Pages+v.Parts >= 1 {
		facts = append(facts, api.ExplainFact{
			Name: "visits", Value: "for " + spanOf(now.Sub(v.First)), Means: fmt.Sprintf("Recently about %.0f pages and %.0f parts of pages.", v.Pages, v.Parts),
		})
	}
	if v.ClientsBehind > 1 {
		facts = append(facts, api.ExplainFact{Name: "people behind it", Value: fmt.Sprintf("about %.0f", v.ClientsBehind), Means: "Their sessions show that; its share is multiplied by as much."})
	}
	return facts
}

// page tells of the page that was asked for, or that one of its requests under way is
// for.
func (e *explanation) page() {
	var k cpuaccount.Kind
	var title string
	switch {
	case e.kind == "page":
		k, title = e.pageKind()
	case len(e.waiting) > 0:
		k, title = e.waiting[0].Kind, "The page that it waits for"
	case len(e.running) > 0:
		k, title = e.running[0].Kind, "The page that it gets"
	default:
		return
	}
	known := e.Guess.Known(e.now, k)
	if e.kind == "page" {
		e.known = e.known || known.Answers > 0 || known.Asked > 0
	}
	rests := fmt.Sprintf("Based on %s to similar requests.", plural(known.Answers, "answer", "answers"))
	switch {
	case known.Overran:
		rests = "It is in doubt: such a request recently cost far more than was guessed."
	case !known.Sure && known.Answers == 0:
		rests = fmt.Sprintf("It is a mere guess: of %s, none was answered recently.", plural(known.Asked, "such request", "such requests"))
	case !known.Sure:
		rests = "It is not sure: there are too few answers, to too few addresses, or something about it was never answered."
	}
	facts := []api.ExplainFact{
		{Name: "URL", Value: k.URL},
		{Name: "likely cost", Value: cpuSeconds(known.Cost.Seconds()), Means: rests},
	}
	if k.Shape != k.URL {
		facts = slices.Insert(facts, 1, api.ExplainFact{Name: "shape", Value: k.Shape})
	}
	if known.Idle.Seconds() >= 1 {
		facts = append(facts, api.ExplainFact{Name: "holds a worker", Value: "for " + spanOf(known.Idle), Means: "It probably waits for a database or another service."})
	}
	e.add(title, facts...)
}
