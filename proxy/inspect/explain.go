package inspect

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"tempomat/classify"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy"
	"tempomat/proxy/admin/api"
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

// samePage tells whether a request is for a page. One that was asked for without
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

// finds tells whether there is a request of a subject. The ids of proxies before this one
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

// isID tells whether a text is the id of a request, as tempomat makes them.
func isID(s string) bool {
	return len(s) == idLength && strings.Trim(s, "0123456789abcdef") == ""
}

// idLength is that of a request's id, in hexadecimal digits.
const idLength = 8
