package proxy

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"tempomat/classify/newcomer"
	"tempomat/proxy/backend"
)

// forwardedHeaders tell the backend who asked whom. Only those of trusted
// proxies get through.
var forwardedHeaders = [...]string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} //nolint:gochecknoglobals // a constant

// rewrite makes the request to the backend of the client's. All but the address
// and what is for one connection only stays as the client sent it: Host, path
// and query, whatever bytes they are made of.
func (u *Upstream) rewrite(x *exchange) (*backend.Request, error) {
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
	protocol := upgradeOf(in.Header)
	if !printable(protocol) {
		return nil, fmt.Errorf("the client asks to upgrade to an invalid protocol: %q", protocol)
	}
	if protocol != "" {
		h["Connection"], h["Upgrade"] = []string{"Upgrade"}, []string{protocol}
	}
	if hasToken(in.Header["Te"], "trailers") {
		h["Te"] = []string{"trailers"}
	}
	setForwarded(in, h, x.Who.TrustedPeer)
	return out, nil
}

// target is what is asked for, as the client sent it where that is a path, or all of
// the server. A space would end it: HTTP/2 has no line that it could be in.
func target(in *http.Request) string {
	s := in.RequestURI
	if !strings.HasPrefix(s, "/") && s != "*" {
		s = in.URL.RequestURI()
	}
	if strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		u := *in.URL
		u.RawQuery = strings.Map(visible, u.RawQuery)
		s = u.RequestURI()
	}
	return s
}

// visible puts a plus, which is a space in a query, in the place of what nobody sees.
func visible(c rune) rune {
	if c <= ' ' || c == 0x7f {
		return '+'
	}
	return c
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

// setForwarded tells the backend where the request came from. What the client
// itself says of that counts only if it is a trusted proxy.
func setForwarded(in *http.Request, h http.Header, trusted bool) {
	for _, name := range forwardedHeaders {
		if v, ok := in.Header[name]; ok && trusted {
			h[name] = v
		} else {
			delete(h, name)
		}
	}
	if peer, _, err := net.SplitHostPort(in.RemoteAddr); err == nil {
		hops := peer
		if before := h["X-Forwarded-For"]; len(before) > 0 {
			hops = strings.Join(slices.Concat(before, []string{peer}), ", ")
		}
		h["X-Forwarded-For"] = []string{hops}
	}
	if _, ok := h["X-Forwarded-Host"]; !ok {
		h["X-Forwarded-Host"] = []string{in.Host}
	}
	if _, ok := h["X-Forwarded-Proto"]; !ok {
		proto := "http"
		if in.TLS != nil {
			proto = "https"
		}
		h["X-Forwarded-Proto"] = []string{proto}
	}
}
