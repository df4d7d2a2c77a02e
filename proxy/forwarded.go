package proxy

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// tellsOrigin tells whether a backend may learn from a field of that name who asks, how,
// and for what: the address of the client, the scheme, the host or the URL. What reads
// such a field takes it for a proxy's word, so that only those of trusted proxies get
// through. The names are those of the common proxies and content delivery networks.
func tellsOrigin(name string) bool {
	if strings.HasPrefix(name, "X-Forwarded") {
		return true // For, Host, Proto, Port, Prefix, Server, Ssl, Scheme, and whatever comes
	}
	switch name {
	case "Forwarded", "Client-Ip", "True-Client-Ip", "X-Client-Ip", "X-Real-Ip", "X-Real-Port", "X-Remote-Addr",
		"X-Remote-Ip", "X-Originating-Ip", "X-Original-Forwarded-For", "X-Cluster-Client-Ip", "X-Proxyuser-Ip",
		"Proxy-Client-Ip", "Wl-Proxy-Client-Ip", "Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Cf-Pseudo-Ipv4", "Cf-Visitor",
		"Fastly-Client-Ip", "Fastly-Ssl", "Incap-Client-Ip", "Ali-Cdn-Real-Ip", "X-Sucuri-Clientip", "X-Azure-Clientip",
		"X-Azure-Socketip", "X-Appengine-User-Ip", "X-Envoy-External-Address", "X-Envoy-Original-Path",
		"X-Envoy-Original-Host", "Front-End-Https", "X-Scheme", "X-Url-Scheme", "X-Https", "Ssl-Https",
		"X-Host", "X-Original-Host", "X-Http-Host-Override", "X-Original-Url", "X-Original-Uri", "X-Rewrite-Url",
		"X-Request-Uri", "X-Script-Name", "Client-Verify", "X-Ssl-Client-Verify", "X-Ssl-Client-S-Dn", "X-Client-Cert":
		return true
	}
	return false
}

// dropUnderscores drops the fields that have an underscore in their name. A server that
// passes fields on in its environment (CGI, RFC 3875, 4.1.18) makes one name of X_Real_IP and
// of X-Real-IP, so that the one would pass for the other.
func dropUnderscores(h http.Header) {
	for name := range h {
		if strings.IndexByte(name, '_') >= 0 {
			delete(h, name)
		}
	}
}

// hyphenated is what a name with underscores may pass for.
func hyphenated(name string) string {
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}

// setForwarded tells the backend where the request came from. What the client
// itself says of that counts only if it is a trusted proxy. Nobody says Proxy: scripts
// take that for their own proxy (CVE-2016-5385).
func (a *asked) setForwarded(in *http.Request, trusted bool) {
	h := a.header
	set := func(i int, name, value string) {
		a.forwarded[i] = value
		h[name] = a.forwarded[i : i+1 : i+1]
	}
	delete(h, "Proxy")
	if !trusted {
		for name := range h {
			if tellsOrigin(name) || strings.IndexByte(name, '_') >= 0 && tellsOrigin(hyphenated(name)) {
				delete(h, name)
			}
		}
	}
	if peer, _, err := net.SplitHostPort(in.RemoteAddr); err == nil {
		hops := peer
		if before := h["X-Forwarded-For"]; len(before) > 0 {
			hops = strings.Join(slices.Concat(before, []string{peer}), ", ")
		}
		set(0, "X-Forwarded-For", hops)
	}
	if _, ok := h["X-Forwarded-Host"]; !ok {
		set(1, "X-Forwarded-Host", in.Host)
	}
	if _, ok := h["X-Forwarded-Proto"]; !ok {
		proto := "http"
		if in.TLS != nil {
			proto = "https"
		}
		set(2, "X-Forwarded-Proto", proto)
	}
}
