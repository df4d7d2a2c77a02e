package proxy

import (
	"net/http"
	"strings"

	"tempomat/classify/newcomer"
	"tempomat/proxy/backend"
	"tempomat/proxy/http1"
)

// rewrite makes the request to the backend of the client's. All but the address
// and what is for one connection only stays as the client sent it: Host, path
// and query, whatever bytes they are made of.
func (u *Upstream) rewrite(x *exchange) *backend.Request {
	in, out := x.request, &x.asked.request
	if x.asked.header == nil {
		x.asked.header = http1.Emptied(nil)
	}
	*out = backend.Request{Method: in.Method, Target: target(in), Host: in.Host, Header: x.asked.header, Hints: x}
	if x.body.ReadCloser != nil {
		out.Body, out.Length, out.Ready, out.Trailer = &x.body, in.ContentLength, x.body.isReady(), x.body.trailer
	}
	if x.client != nil {
		out.Order = x.client.Names()
	}
	h := out.Header
	endToEnd(h, in.Header)
	stripPrivate(h) // it is the backend's to say
	stripPass(h)
	if protocol := x.policy.mayUpgrade(x.upgradeAsked()); protocol != "" {
		h["Connection"], h["Upgrade"] = []string{"Upgrade"}, []string{protocol}
	}
	if hasToken(in.Header["Te"], "trailers") {
		h["Te"] = []string{"trailers"}
	}
	if !x.policy.Underscores {
		dropUnderscores(h)
	}
	x.asked.setForwarded(in, x.Who.TrustedPeer)
	setMaxForwards(in, h)
	x.policy.setVia(h, in.ProtoMajor)
	return out
}

// asked is what is asked of the backend, and the memory for it.
type asked struct {
	request   backend.Request
	header    http.Header
	forwarded [3]string // values of it, of which each is one
}

// clear forgets it, but for its memory.
func (a *asked) clear() {
	*a = asked{header: http1.Emptied(a.header)}
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

// stripPass takes out the cookie that is the proxy's own, also where nobody is
// redirected any more.
func stripPass(h http.Header) {
	if lines := newcomer.StripPass(h["Cookie"]); lines != nil {
		h["Cookie"] = lines
	} else {
		delete(h, "Cookie")
	}
}
