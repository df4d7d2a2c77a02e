package proxy

import (
	"net/http"
	"strings"

	"tempomat/classify/newcomer"
	"tempomat/proxy/backend"
)

// rewrite makes the request to the backend of the client's. All but the address
// and what is for one connection only stays as the client sent it: Host, path
// and query, whatever bytes they are made of.
func (u *Upstream) rewrite(x *exchange) *backend.Request {
	in := x.request
	out := &backend.Request{
		Method: in.Method, Target: target(in), Host: in.Host,
		Header: make(http.Header, len(in.Header)+4), Hints: x,
	}
	if x.body.ReadCloser != nil {
		out.Body, out.Length, out.Ready, out.Trailer = &x.body, in.ContentLength, x.body.isReady(), x.body.trailer
	}
	h := out.Header
	endToEnd(h, in.Header)
	stripPass(h)
	if protocol := x.policy.mayUpgrade(upgradeOf(in.Header)); protocol != "" {
		h["Connection"], h["Upgrade"] = []string{"Upgrade"}, []string{protocol}
	}
	if hasToken(in.Header["Te"], "trailers") {
		h["Te"] = []string{"trailers"}
	}
	if !x.policy.Underscores {
		dropUnderscores(h)
	}
	setForwarded(in, h, x.Who.TrustedPeer)
	return out
}

// target is what is asked for, as the client sent it where that is a path, or all of
// the server.
func target(in *http.Request) string {
	if s := in.RequestURI; strings.HasPrefix(s, "/") || s == "*" {
		return s
	}
	return in.URL.RequestURI()
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
