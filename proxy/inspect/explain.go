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
	mostAsked  = 2048 // longest question, in bytes
	mostOf     = 20   // number of requests that are examined
	mostListed = 5    // number of examined requests that are listed
	mostKeys   = 8    // number of keys that are shown
	idLength   = 8    // number of hexadecimal digits of a request's id
)

// subject is the client, page or request in a question.
type subject struct {
	kind     string
	keys     []limiter.Key // keys that can be derived from the question alone
	address  netip.Addr    // set if the kind is address
	url      *url.URL      // set if the kind is page
	match    func(*proxy.Underway) bool
	verdicts func(*api.VerdictRow) bool
}

// Explain returns everything that is known about an address, a network, a User-Agent, a path or URL, or a
// request by its id. Its error describes what is wrong with the question.
func (i *Inspector) Explain(now time.Time, of string) (api.ExplainReply, error) {
	s, err := i.subject(of)
	if err != nil {
		return api.ExplainReply{}, err
	}
	waiting, waits := i.Requests.ListWaiting(now, mostOf, s.match)
	running, runs := i.Requests.ListRunning(mostOf, s.match)
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
	e.reply.Summary = e.summary(of)
	e.advise()
	return e.reply, nil
}

// subject finds out what a question is about.
func (i *Inspector) subject(of string) (subject, error) {
	switch {
	case strings.TrimSpace(of) == "":
		return subject{}, errors.New("of: empty; give an address, a network, a User-Agent, a path, a URL or the id of a request")
	case len(of) > mostAsked:
		return subject{}, fmt.Errorf("of: too long: %d bytes; at most %d are allowed", len(of), mostAsked)
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
	if strings.HasPrefix(of, "/") || strings.HasPrefix(of, "http://") || strings.HasPrefix(of, "https://") {
		if u, err := url.Parse(of); err == nil {
			return subject{
				kind: "page", url: u,
				match:    func(x *proxy.Underway) bool { return x.Shape == of || samePage(u, x.Host, x.Target) },
				verdicts: func(v *api.VerdictRow) bool { return v.Shape == of || samePage(u, v.Host, v.URL) },
			}, nil
		}
	}
	request := subject{
		kind: "request", match: func(u *proxy.Underway) bool { return u.ID == of },
		verdicts: func(v *api.VerdictRow) bool { return v.ID == of },
	}
	if len(of) == idLength && strings.Trim(of, "0123456789abcdef") == "" || i.finds(request) {
		return request, nil
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

// network returns the subject for a network. Its keys are those of classes that charge exactly this network,
// not a smaller or larger one.
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

// samePage reports whether a request is for a page. A question without parameters means the page with any
// parameters.
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

// finds reports whether there is a request of a subject. Only this shows whether a text is an id, because a
// proxy in front of this one may give requests ids of any form.
func (i *Inspector) finds(s subject) bool {
	_, runs := i.Requests.ListRunning(1, s.match)
	_, waits := i.Requests.ListWaiting(time.Time{}, 0, s.match)
	return runs+waits+len(i.recents(1, s.verdicts)) > 0
}

// explanation is an answer of Explain that is being composed.
type explanation struct {
	*Inspector
	subject
	now              time.Time
	waiting, running []proxy.Underway
	waits, runs      int
	known            bool          // whether anything is known about the subject
	owing            []limiter.Row // keys of the subject that are in debt
	exempt           bool          // whether the configuration exempts the subject, so no advice is needed
	reply            api.ExplainReply
}

func (e *explanation) add(title string, facts ...api.ExplainFact) {
	if len(facts) > 0 {
		e.reply.Sections = append(e.reply.Sections, api.ExplainSection{Title: title, Facts: facts})
	}
}

// underway returns the subject's examined requests, the waiting ones first.
func (e *explanation) underway() []proxy.Underway { return slices.Concat(e.waiting, e.running) }

// present adds the number of the subject's waiting and running requests.
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
			Means: "Their clients have disconnected, but the backend is still working on them. They hold their workers until the backend is done.",
		})
	}
	if o := e.next(); o != nil && o.Site != "" {
		facts = append(facts, api.ExplainFact{Name: "site", Value: o.Site})
	}
	e.add("At this moment", facts...)
}

// accounts adds the accounts of the subject's keys.
func (e *explanation) accounts() {
	keys := slices.Clone(e.keys)
	if e.kind == "address" || e.kind == "request" {
		for _, u := range e.underway() {
			for _, k := range u.Keys {
				if !slices.Contains(keys, k) && len(keys) < mostKeys {
					keys = append(keys, k)
				}
			}
		}
	}
	var facts []api.ExplainFact
	for _, k := range keys {
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

// account describes a key's debt or credit, and the CPU time that it used.
func (e *explanation) account(k limiter.Key, r *limiter.Row) api.ExplainFact {
	f := api.ExplainFact{Name: k.Class + " " + k.ID, Value: "has " + cpuSeconds(r.Level) + " saved"}
	f.Means = fmt.Sprintf("Its requests that ended recently used %.2f CPUs, at %.1f requests per second. Its share is %.2f CPUs.", r.CPU, r.Rate, e.budget(k.Class).CPUs)
	if r.Holds > 0 {
		f.Means += " " + plural(r.Holds, "of its requests isn't short and holds a worker.", "of its requests aren't short and hold workers.")
	}
	if r.Orphans > 0 {
		f.Means += " " + plural(r.Orphans, "abandoned request is still running.", "abandoned requests are still running.")
	}
	if r.Level < 0 {
		e.owing = append(e.owing, *r)
		f.Value = fmt.Sprintf("owes %s, paid in %s", cpuSeconds(-r.Level), span(r.Paid))
		f.Means += " Until the debt is paid, its requests count as more expensive while the server is busy."
	}
	return f
}

// standing adds the group in which an address counts, and the reason.
func (e *explanation) standing() {
	if e.kind != "address" || len(e.keys) == 0 {
		return
	}
	var facts []api.ExplainFact
	r, charged := e.Ledger.Find(e.now, e.keys[0])
	var past *standing.Visits
	if s := e.Requests.Policy().Standing; s != nil {
		if v, ok := s.Visits(e.now, e.keys[0].ID); ok {
			past, e.known = &v, true
		}
	}
	if as, why := e.countsAs(r.Client, past); as != "" {
		facts = append(facts, api.ExplainFact{Name: "counts as", Value: as, Means: why})
	}
	if past != nil && past.Pages+past.Parts >= 1 {
		facts = append(facts, api.ExplainFact{
			Name: "visits", Value: "for " + spanOf(e.now.Sub(past.First)), Means: fmt.Sprintf("It recently loaded about %.0f pages, and %.0f of their images and style sheets.", past.Pages, past.Parts),
		})
	}
	if past != nil && past.ClientsBehind > 1 {
		facts = append(facts, api.ExplainFact{Name: "people behind it", Value: fmt.Sprintf("about %.0f", past.ClientsBehind), Means: "The number is estimated from their sessions. If all of them have requests, the address's share is multiplied by it."})
	}
	if charged && r.Client != nil && r.Client.Lead > 0 {
		facts = append(facts, api.ExplainFact{
			Name: "ahead of its share", Value: cpuSeconds(r.Client.Lead), Means: "At 0.50 CPU-s or more, clients that used less go first.",
		})
	}
	e.add("This address", facts...)
}

// countsAs returns the group in which an address counts, and the reason. An exemption or a pin comes first, because
// it applies to all requests. Otherwise the groups of the address's running and waiting requests decide, or, if there
// are none, its earlier requests. If several clients share the address, each request counts by its own evidence.
func (e *explanation) countsAs(at *limiter.ClientRow, past *standing.Visits) (as, why string) {
	if e.Requests.Policy().Classifier.Exempts(e.address, &url.URL{Path: "/"}) {
		e.known, e.exempt = true, true
		return "exempt", "The configuration exempts it: it is never charged and never waits."
	}
	for _, p := range e.Pinned.All(e.now) {
		if slices.Contains(e.keys, p.Key) {
			return "pinned", fmt.Sprintf("An administrator has multiplied its share by %g, for another %s.", p.Standing, spanOf(p.Until.Sub(e.now)))
		}
	}
	counts, underway := make(map[telemetry.Group]int), e.underway()
	for i := range underway {
		counts[underway[i].Group]++
	}
	if len(counts) > 1 {
		var groups []string
		for _, g := range telemetry.ShownGroups() {
			if counts[g] > 0 {
				groups = append(groups, fmt.Sprintf("%d %s", counts[g], g))
			}
		}
		return "several clients", "Its current requests count as: " + strings.Join(groups, ", ") + ". Each one is judged by its own cookies."
	}
	proves := past != nil && past.Evidence.Proves()
	switch {
	case len(underway) > 0:
		return groupWords(underway[0].Group.String(), underway[0].Evidence, proves)
	case e.isTrusted():
		return groupWords(telemetry.Known.String(), classify.Attested, false)
	case at != nil && at.Known:
		return "a known client", "It has used the site for a while, and has a turn of its own."
	case proves:
		return groupWords(telemetry.Known.String(), past.Evidence, false)
	case len(e.reply.Recent) > 0:
		return groupWords(e.reply.Recent[0].Group, 0, false)
	case at != nil || past != nil:
		return groupWords(telemetry.Stranger.String(), 0, false)
	}
	return "", ""
}

// isTrusted reports whether the configuration trusts the address.
func (e *explanation) isTrusted() bool {
	judge := e.Requests.Policy().Standing
	return judge != nil && judge.Trusts(e.address)
}

// groupWords explains a group. proves is true if other requests from the address bring evidence.
func groupWords(group string, evidence classify.Evidence, proves bool) (as, why string) {
	switch group {
	case telemetry.Robot.String():
		return "a robot", "Its User-Agent names a program, or its address is a robot's."
	case telemetry.Newcomer.String():
		return "a newcomer", "It came back with the cookie that newcomers get, and goes first among strangers."
	case telemetry.Stranger.String():
		why = "While others wait, it shares one turn with all unknown clients. It becomes known after half a minute and five answers, or at once if it brings back a cookie from the site."
		if proves {
			why += " Other requests from this address have done so; its current ones haven't."
		}
		return "a stranger", why
	case telemetry.Known.String():
		if words := evidenceWords(evidence &^ classify.Forged); words != "" {
			return "a known client", "It has a turn of its own, because " + words + "."
		}
		return "a known client", "It has a turn of its own."
	}
	return group, ""
}

// pageKind finds the page whose cost is shown. If nothing is known about the page in the question, pageKind takes
// that of the first request, because people who ask about a path usually mean the path with its parameters.
func (e *explanation) pageKind() (k cpuaccount.Kind, ok bool) {
	if e.kind == "page" {
		k = cpuaccount.Kind{Shape: classify.ShapeOf(e.url), URL: e.url.RequestURI(), Site: e.Requests.Policy().Classifier.SiteOf(e.url.Host)}
		sent := k
		sent.Sends = true
		for _, k := range []cpuaccount.Kind{k, sent} {
			if e.Guess.Known(e.now, k).Answers > 0 {
				return k, true
			}
		}
	}
	if all := e.underway(); len(all) > 0 {
		return all[0].Kind, true
	}
	if e.kind == "page" && len(e.reply.Recent) > 0 {
		return cpuaccount.Kind{Shape: e.reply.Recent[0].Shape, URL: e.reply.Recent[0].URL}, true
	}
	return k, e.kind == "page"
}

// page adds the likely cost of the page in the question, or of the page of a current request.
func (e *explanation) page() {
	k, ok := e.pageKind()
	if !ok {
		return
	}
	known := e.Guess.Known(e.now, k)
	if e.kind == "page" {
		e.known = e.known || known.Answers > 0 || known.Asked > 0
	}
	rests := fmt.Sprintf("Based on %s to similar requests.", plural(known.Answers, "answer", "answers"))
	switch {
	case known.Overran:
		rests = "The guess is in doubt: a similar request recently cost far more than expected."
	case !known.Sure && known.Asked == 0:
		rests = "It is only a guess: no such page was requested recently."
	case !known.Sure && known.Answers == 0:
		rests = fmt.Sprintf("It is only a guess: %s recently, but no answer.", plural(known.Asked, "such request", "such requests"))
	case !known.Sure:
		rests = "It is uncertain: there are too few answers, they went to too few addresses, or a request like this was never answered."
	}
	facts := []api.ExplainFact{{Name: "URL", Value: k.URL}}
	if k.Shape != k.URL {
		facts = append(facts, api.ExplainFact{Name: "shape", Value: k.Shape})
	}
	facts = append(facts, api.ExplainFact{Name: "likely cost", Value: cpuSeconds(known.Cost.Seconds()), Means: rests})
	if known.Idle.Seconds() >= 1 {
		facts = append(facts, api.ExplainFact{Name: "holds a worker", Value: "for " + spanOf(known.Idle), Means: "It probably waits for a database or another service."})
	}
	e.add("Its page", facts...)
}
