package proxy

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"tempomat/classify/newcomer"
)

// forwardedHeaders tell the backend who asked whom. Only those of trusted
// proxies get through.
var forwardedHeaders = [...]string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} //nolint:gochecknoglobals // a constant

// rewrite makes the request to the backend of the client's. All but the address
// and what is for one connection only stays as the client sent it: Host, path
// and query, whatever bytes they are made of.
func (u *Upstream) rewrite(x *exchange) (*http.Request, error) {
	in := x.request
	out := in.WithContext(x.conn.backend)
	target := *in.URL
	target.Scheme, target.Host = u.scheme, u.host
	out.URL, out.Close = &target, false
	if x.body.ReadCloser == nil {
		out.Body = nil // so that it can be sent again
	}
	out.Trailer = x.body.trailer
	keepPath(in, out)
	out.Header = make(http.Header, len(in.Header)+4)
	endToEnd(out.Header, in.Header)
	stripPass(out.Header)
	protocol := upgradeOf(in.Header)
	if !printable(protocol) {
		return nil, fmt.Errorf("the client asks to upgrade to an invalid protocol: %q", protocol)
	}
	if protocol != "" {
		out.Header["Connection"], out.Header["Upgrade"] = []string{"Upgrade"}, []string{protocol}
	}
	if hasToken(in.Header["Te"], "trailers") {
		out.Header["Te"] = []string{"trailers"}
	}
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = []string{""} // none, and not net/http's own
	}
	setForwarded(in, out, x.Who.TrustedPeer)
	return out, nil
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

// keepPath sends the path in the client's own encoding, where parsing and
// formatting it would change that.
func keepPath(in, out *http.Request) {
	path, _, _ := strings.Cut(in.RequestURI, "?")
	if strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") && path != out.URL.EscapedPath() {
		out.URL.Opaque = path
	}
}

// setForwarded tells the backend where the request came from. What the client
// itself says of that counts only if it is a trusted proxy.
func setForwarded(in, out *http.Request, trusted bool) {
	for _, name := range forwardedHeaders {
		if v, ok := in.Header[name]; ok && trusted {
			out.Header[name] = v
		} else {
			delete(out.Header, name)
		}
	}
	if peer, _, err := net.SplitHostPort(in.RemoteAddr); err == nil {
		hops := peer
		if before := out.Header["X-Forwarded-For"]; len(before) > 0 {
			hops = strings.Join(slices.Concat(before, []string{peer}), ", ")
		}
		out.Header["X-Forwarded-For"] = []string{hops}
	}
	if _, ok := out.Header["X-Forwarded-Host"]; !ok {
		out.Header["X-Forwarded-Host"] = []string{in.Host}
	}
	if _, ok := out.Header["X-Forwarded-Proto"]; !ok {
		proto := "http"
		if in.TLS != nil {
			proto = "https"
		}
		out.Header["X-Forwarded-Proto"] = []string{proto}
	}
}
