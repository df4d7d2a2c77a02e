package proxy

import (
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
)

// forwardedHeaders tell the backend who asked whom. ReverseProxy takes them out
// of every request; those of trusted proxies are put back.
var forwardedHeaders = [...]string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded"} //nolint:gochecknoglobals // a constant

// rewrite addresses a request to the backend. All else stays as the client sent
// it: Host, path and query, whatever bytes they are made of.
func rewrite(r *httputil.ProxyRequest, scheme, host string) {
	in, out := r.In, r.Out
	out.URL.Scheme, out.URL.Host = scheme, host
	out.URL.RawQuery = in.URL.RawQuery // ReverseProxy drops what it can not parse, as with ";"
	out.Trailer = in.Trailer           // the copy of before the body was read would stay empty
	keepPath(in, out)
	setForwarded(in, out, exchangeOf(in).who.TrustedPeer)
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
	if trusted {
		for _, name := range forwardedHeaders {
			if v, ok := in.Header[name]; ok {
				out.Header[name] = v
			}
		}
	}
	if peer, _, err := net.SplitHostPort(in.RemoteAddr); err == nil {
		hops := slices.Concat(out.Header["X-Forwarded-For"], []string{peer})
		out.Header["X-Forwarded-For"] = []string{strings.Join(hops, ", ")}
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
