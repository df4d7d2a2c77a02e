package proxy

import (
	"net/textproto"
	"strings"

	"tempomat/classify"
	"tempomat/classify/standing"
	"tempomat/cpuaccount"
	"tempomat/proxy/http1"
)

// isHop reports whether a field is for one connection only (RFC 9110, 7.6.1). Trailer is such a field,
// because the proxy drops some of the trailers that Trailer announces.
func isHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// named returns the header fields that Connection lists and that therefore apply to one connection only. Fields
// for all servers on the way are never among them (RFC 9110, 7.6.1). Otherwise a client could remove a field in
// which a proxy in front of this one describes the client. The map is filled with the header's own keys first,
// so its size stays bounded if a client lists each field thousands of times.
func named(h http1.Fields) (private map[string]bool) {
	for _, f := range h {
		if f.Key != "Connection" {
			continue
		}
		for name := range strings.SplitSeq(f.Value, ",") {
			if name = textproto.TrimString(name); name == "" || strings.EqualFold(name, "close") || strings.EqualFold(name, "keep-alive") {
				continue
			}
			if private == nil {
				private = make(map[string]bool, len(h))
				for _, f := range h {
					private[f.Key] = false
				}
			}
			if key := http1.Key(name); !isForAll(key) {
				if _, told := private[key]; told {
					private[key] = true
				}
			}
		}
	}
	return private
}

// isForAll reports whether a field is meant for all servers on the way.
func isForAll(name string) bool {
	switch name {
	case "Host", "Authorization", "Cookie", "Set-Cookie", "Cache-Control", "Date", "Expect", "Location", "Origin", "Pragma",
		"Range", "Referer", "User-Agent", "Vary", "Via", "Etag", "Max-Forwards", loopHeader:
		return true
	}
	return strings.HasPrefix(name, "Content-") || strings.HasPrefix(name, "Accept") || strings.HasPrefix(name, "If-") || tellsOrigin(name)
}

// endToEnd appends to dst the fields of an answer that pass to the client.
func endToEnd(dst, src http1.Fields) http1.Fields {
	private := named(src)
	for _, f := range src {
		if !isHop(f.Key) && !isPrivate(f.Key) && !private[f.Key] {
			dst = append(dst, f)
		}
	}
	return dst
}

// tellsOrigin reports whether a field of that name may give the backend the client's address, the scheme, the
// host or the URL. A backend that reads such a field trusts it, so it passes only from trusted proxies.
// Common proxies and content delivery networks use these names.
func tellsOrigin(name string) bool {
	if strings.HasPrefix(name, "X-Forwarded") || strings.HasPrefix(name, "Forwarded") {
		return true // For, Host, Proto, Port, Prefix, Server, Ssl, Scheme, and any that may be invented later
	}
	if strings.HasSuffix(name, "Client-Ip") || strings.HasSuffix(name, "Connecting-Ip") {
		return true // each content delivery network has its own, such as Fastly-Client-Ip
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

// mayTrail reports whether a field may come after a body. A server may merge trailers into the header, which
// the proxy has already checked. Therefore trailers must not describe how the message is framed, where it goes,
// who sent it, what the request may do, or how to read the content (RFC 9110, 6.5.1).
func mayTrail(name string) bool {
	switch name {
	case "Host", "Proxy", "Authorization", "Cookie", "Set-Cookie", "Expect", "Max-Forwards", "Cache-Control", "Pragma", "Range",
		"Realm", "Www-Authenticate", "Age", "Date", "Expires", "Location", "Retry-After", "Vary", "Warning":
		return false
	}
	return !isHop(name) && !isPrivate(name) && !tellsOrigin(name) && classify.FoldedName(name) == name &&
		!strings.HasPrefix(name, "Content-") && !strings.HasPrefix(name, "If-")
}

// trailers returns the fields that may come after a body.
func trailers(src http1.Fields) (dst http1.Fields) {
	for _, f := range src {
		if mayTrail(f.Key) {
			dst = append(dst, f)
		}
	}
	return dst
}

// isPrivate reports whether only the proxy may see the field of a backend's answer.
func isPrivate(name string) bool {
	return name == cpuaccount.CostHeader || name == standing.Header || name == numberHeader
}
