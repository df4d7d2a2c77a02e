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
	if strings.HasPrefix(name, "X-Forwarded") || strings.HasPrefix(name, "Forwarded") {
		return true // For, Host, Proto, Port, Prefix, Server, Ssl, Scheme, and whatever comes
	}
	if strings.HasSuffix(name, "Client-Ip") || strings.HasSuffix(name, "Connecting-Ip") {
		return true // each network has its own, such as Fastly-Client-Ip
	}
	switch name {
	case "X-Real-Ip", "X-Real-Port", "X-Remote-Addr", "X-Remote-Ip", "X-Originating-Ip", "X-Original-Forwarded-For",
		"X-Proxyuser-Ip", "Cf-Connecting-Ipv6", "Cf-Pseudo-Ipv4", "Cf-Visitor", "Cloudfront-Viewer-Address",
		"Cloudfront-Forwarded-Proto", "Fastly-Ssl", "Ali-Cdn-Real-Ip", "X-Sucuri-Clientip", "X-Azure-Clientip",
		"X-Azure-Socketip", "X-Appengine-User-Ip", "X-Envoy-External-Address", "X-Envoy-Original-Path",
		"X-Envoy-Original-Host", "Front-End-Https", "X-Scheme", "X-Url-Scheme", "X-Https", "Ssl-Https",
		"X-Host", "X-Original-Host", "X-Http-Host-Override", "X-Original-Url", "X-Original-Uri", "X-Rewrite-Url",
		"X-Request-Uri", "X-Script-Name", "Client-Verify", "X-Ssl-Client-Verify", "X-Ssl-Client-S-Dn", "X-Client-Cert":
		return true
	}
	return false
}

// setForwarded tells the backend where the request came from. What the client
// itself said of that is still there only if it is a trusted proxy.
func (a *asked) setForwarded(in *http.Request) {
	set := func(i int, name, value string) {
		a.forwarded[i] = value
		a.fields.Set(name, a.forwarded[i:i+1:i+1])
	}
	if peer, _, err := net.SplitHostPort(in.RemoteAddr); err == nil {
		hops := peer
		if before := a.fields.Get("X-Forwarded-For"); len(before) > 0 {
			hops = strings.Join(slices.Concat(before, []string{peer}), ", ")
		}
		set(0, "X-Forwarded-For", hops)
	}
	if in.Host != "" && a.fields.Get("X-Forwarded-Host") == nil { // HTTP/1.0 may name none
		set(1, "X-Forwarded-Host", in.Host)
	}
	if a.fields.Get("X-Forwarded-Proto") == nil {
		proto := "http"
		if in.TLS != nil {
			proto = "https"
		}
		set(2, "X-Forwarded-Proto", proto)
	}
}
