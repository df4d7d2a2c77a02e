package proxy

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"tempomat/classify"
	"tempomat/classify/newcomer"
	"tempomat/proxy/backend"
	"tempomat/proxy/http1"
)

// rewrite makes the request to the backend of the client's. All but the address
// and what is for one connection only stays as the client sent it: Host, path
// and query, whatever bytes they are made of.
func (u *Upstream) rewrite(x *exchange) *backend.Request {
	in, out := x.request, &x.asked.request
	x.asked.fields = x.passed(x.asked.fields)
	x.asked.setVia(x.policy, in)
	x.asked.setForwarded(in)
	x.asked.setMark(&x.handler.marks, in)
	x.setNumber()
	*out = backend.Request{Method: in.Method, Target: target(in), Host: in.Host, Fields: x.asked.fields, Hints: x}
	if x.body.ReadCloser != nil {
		out.Body, out.Length, out.Ready, out.Trailer = &x.body, in.ContentLength, x.body.isReady(), x.body.trailer
	}
	return out
}

// passed appends the fields of the client's request that the backend gets.
func (x *exchange) passed(fields http1.List) http1.List {
	in := x.request.Header
	r := rewriting{x: x, private: named(in), upgrade: x.policy.mayUpgrade(x.upgradeAsked())}
	for _, name := range x.names() {
		values, ok := in[name.Canonical]
		if !ok {
			continue
		}
		if values = r.passed(name.Canonical, values); len(values) > 0 {
			fields = append(fields, http1.Line{Name: name, Values: values})
		}
	}
	return fields
}

// names are those of the request's header in the client's order, or sorted, as HTTP/2 has
// none that means anything.
func (x *exchange) names() []http1.Name {
	if x.client != nil {
		return x.client.Names()
	}
	names := make([]http1.Name, 0, len(x.request.Header))
	for _, name := range slices.Sorted(maps.Keys(x.request.Header)) {
		names = append(names, http1.Name{Written: name, Canonical: name})
	}
	return names
}

// rewriting is what it depends on what becomes of a field.
type rewriting struct {
	x       *exchange
	private map[string]bool // see named
	upgrade string          // the protocol that the backend is asked for; empty: none
}

// passed is what the backend gets of a field; nil: nothing.
func (r *rewriting) passed(name string, values []string) []string {
	// A field in a spelling that some servers take for another one passes only where that is
	// configured, and then only if the other one means nothing to a proxy.
	if folded := classify.FoldedName(name); folded != name && !(r.x.policy.Underscores && mayTrail(folded)) {
		return nil
	}
	switch {
	case isHop(name):
		return r.ofHop(name, values)
	case r.private[name], isPrivate(name), name == "Proxy":
		return nil // the backend says what is private, and scripts take Proxy for their own (CVE-2016-5385)
	case !r.x.Who.TrustedPeer && tellsOrigin(name):
		return nil
	case name == "Cookie":
		return newcomer.StripPass(values) // the pass is the proxy's own, also where nobody is redirected any more
	case name == "Max-Forwards":
		return oneLess(r.x.request, values)
	}
	return values
}

// ofHop is what the backend gets of a field that is for one connection only.
func (r *rewriting) ofHop(name string, values []string) []string {
	switch {
	case name == "Te" && hasToken(values, "trailers"):
		return []string{"trailers"}
	case name == "Connection" && r.upgrade != "":
		return []string{"Upgrade"}
	case name == "Upgrade" && r.upgrade != "":
		return []string{r.upgrade}
	}
	return nil
}

// asked is what is asked of the backend, and the memory for it.
type asked struct {
	request   backend.Request
	fields    http1.List
	forwarded [3]string // values of it, of which each is one
	mark      [1]string // one, too
}

// target is what is asked for, as the client sent it. Of an absolute URL it is what
// follows the host (RFC 9112, 3.2.2), of one with nothing else "*" if all of the server is
// meant (3.2.4).
func target(in *http.Request) string {
	s := in.RequestURI
	if strings.HasPrefix(s, "/") || s == "*" {
		return s
	}
	_, s, _ = strings.Cut(s, "://")
	switch i := strings.IndexAny(s, "/?"); {
	case i < 0 && in.Method == http.MethodOptions:
		return "*"
	case i < 0:
		return "/"
	case s[i] == '?':
		return "/" + s[i:]
	default:
		return s[i:]
	}
}
