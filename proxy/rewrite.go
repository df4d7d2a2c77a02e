package proxy

import (
	"crypto/rand"
	"hash/maphash"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"tempomat/classify"
	"tempomat/classify/newcomer"
	"tempomat/classify/standing"
	"tempomat/cpuaccount"
	"tempomat/proxy/backend"
	"tempomat/proxy/errorpage"
	"tempomat/proxy/http1"
	"tempomat/proxy/telemetry"
)

// rewrite makes the request to the backend of the client's. All but the address
// and what is for one connection only stays as the client sent it: Host, path
// and query, whatever bytes they are made of.
func (u *Upstream) rewrite(x *exchange) *backend.Request {
	in, out := x.request, &x.backend.asked.request
	x.backend.asked.fields = x.passed(x.backend.asked.fields)
	x.backend.asked.setForwarded(in)
	x.backend.asked.fields = append(x.backend.asked.fields, http1.Field{Name: "CDN-Loop", Key: loopHeader, Value: x.handler.marks.of(in)})
	x.setNumber()
	*out = backend.Request{Method: in.Method, Target: target(in), Host: in.Host, Fields: x.backend.asked.fields, Hints: x}
	if body := &x.client.body; body.ReadCloser != nil {
		out.Body, out.Length, out.Ready = body, in.ContentLength, body.isReady()
		out.Announced = slices.DeleteFunc(x.client.writer.Asked().Announced(), func(key string) bool { return !mayTrail(key) })
		out.Trailer = func() http1.Fields { return trailers(x.client.writer.Trailer()) }
	}
	return out
}

// passed appends the fields of the client's request that the backend gets.
func (x *exchange) passed(fields http1.Fields) http1.Fields {
	asked := x.client.writer.Asked()
	r := rewriting{x: x, private: named(*asked), upgrade: mayUpgrade(x.upgradeAsked())}
	for _, f := range *asked {
		if value, ok := r.passed(f.Key, f.Value); ok && !(isHop(f.Key) && fields.Has(f.Key)) { // one of these says it all
			fields = append(fields, http1.Field{Name: f.Name, Key: f.Key, Value: value})
		}
	}
	return fields
}

// rewriting is what it depends on what becomes of a field.
type rewriting struct {
	x       *exchange
	private map[string]bool // see named
	upgrade string          // the protocol that the backend is asked for; empty: none
}

// passed is what the backend gets of a field; false: nothing.
func (r *rewriting) passed(key, value string) (string, bool) {
	// A field in a spelling that some servers take for another one passes only where that is
	// configured, and then only if the other one means nothing to a proxy.
	if folded := classify.FoldedName(key); folded != key && !(r.x.policy.Underscores && mayTrail(folded)) {
		return "", false
	}
	switch {
	case isHop(key):
		return r.ofHop(key, value)
	case r.private[key], isPrivate(key), key == "Proxy":
		return "", false // the backend says what is private, and scripts take Proxy for their own (CVE-2016-5385)
	case !r.x.life.Who.TrustedPeer && tellsOrigin(key):
		return "", false
	case key == "Cookie":
		kept := newcomer.StripLine(value) // the pass is the proxy's own, also if newcomers are no longer redirected
		return kept, kept != "" || value == ""
	case key == "Max-Forwards":
		if n, told := forwards(r.x.request); told {
			return strconv.FormatUint(n-1, 10), true
		}
	}
	return value, true
}

// ofHop is what the backend gets of a field that is for one connection only.
func (r *rewriting) ofHop(key, value string) (string, bool) {
	switch key {
	case "Te":
		return "trailers", http1.HasToken(value, "trailers")
	case "Connection":
		return "Upgrade", r.upgrade != ""
	case "Upgrade":
		return r.upgrade, r.upgrade != ""
	}
	return "", false
}

// target is the request's target as the client sent it. For an absolute URL it is the part
// after the host (RFC 9112, 3.2.2); without that part it is "*" if the request is about the
// whole server (3.2.4).
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

// isHop reports whether a field is for one connection only (RFC 9110, 7.6.1).
// Trailer is told again, by what trailers there are.
func isHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// named reports for the keys of a header whether Connection names them: then they are for this connection
// only. Fields that are for all servers on the way are never among them (RFC 9110, 7.6.1): otherwise a
// client could remove what a proxy in front of this one says about it. A client may name each thousands
// of times.
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

// isForAll reports whether a field is for all servers on the way.
func isForAll(name string) bool {
	switch name {
	case "Host", "Authorization", "Cookie", "Set-Cookie", "Cache-Control", "Date", "Expect", "Location", "Origin", "Pragma",
		"Range", "Referer", "User-Agent", "Vary", "Via", "Etag", "Max-Forwards", loopHeader:
		return true
	}
	return strings.HasPrefix(name, "Content-") || strings.HasPrefix(name, "Accept") || strings.HasPrefix(name, "If-") || tellsOrigin(name)
}

// endToEnd appends the fields of an answer that are for the client as well.
func endToEnd(dst, src http1.Fields) http1.Fields {
	private := named(src)
	for _, f := range src {
		if !isHop(f.Key) && !isPrivate(f.Key) && !private[f.Key] {
			dst = append(dst, f)
		}
	}
	return dst
}

// upgradeOf is the protocol that a header asks for or agrees to; empty: none.
func upgradeOf(h http1.Fields) string {
	for _, f := range h {
		if f.Key == "Connection" && http1.HasToken(f.Value, "Upgrade") {
			return h.Get("Upgrade")
		}
	}
	return ""
}

// upgradeAsked is the protocol that the client asks for; empty: none. HTTP/1.0 knows of
// none (RFC 9110, 7.8), and what follows a request with a body may still be that.
func (x *exchange) upgradeAsked() string {
	if !x.request.ProtoAtLeast(1, 1) || x.client.body.ReadCloser != nil {
		return ""
	}
	return upgradeOf(*x.client.writer.Asked())
}

// mayUpgrade is the first of the protocols that a client asks for and may have; empty: none,
// and the backend is not asked. What a backend and its client agree on passes unseen: h2c would
// carry requests past all checks.
func mayUpgrade(asked string) string {
	for protocol := range strings.SplitSeq(asked, ",") {
		protocol = textproto.TrimString(protocol)
		if strings.EqualFold(protocolName(protocol), "websocket") && printable(protocol) {
			return protocol
		}
	}
	return ""
}

// protocolName is a protocol without its version.
func protocolName(protocol string) string {
	name, _, _ := strings.Cut(protocol, "/")
	return name
}

// printable reports whether all of s is printable ASCII.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// forwards is how often a request may be forwarded yet (Max-Forwards of RFC 9110, 7.6.2);
// false: that is not for this method, or not told.
func forwards(r *http.Request) (n uint64, told bool) {
	if r.Method != http.MethodTrace && r.Method != http.MethodOptions {
		return 0, false
	}
	lines := r.Header["Max-Forwards"]
	if len(lines) != 1 {
		return 0, false
	}
	n, err := strconv.ParseUint(lines[0], 10, 64)
	return n, err == nil
}

// endsHere reports whether a request asks after this proxy, and not after the backend.
func endsHere(r *http.Request) bool {
	n, told := forwards(r)
	return told && n == 0
}

// answerHere answers a request that asks after this proxy. TRACE is not done here: it
// would show what only the proxy and the client's own proxies know.
func (x *exchange) answerHere() {
	if x.request.Method == http.MethodTrace {
		x.client.writer.Fields().Set("Allow", "OPTIONS")
		x.fail(telemetry.Refused, errorpage.WrongMethod, "This proxy answers no TRACE.")
		return
	}
	x.client.writer.WriteHeader(http.StatusNoContent)
}

// loopHeader tells proxies which of them a request has passed (RFC 8586).
const loopHeader = "Cdn-Loop"

// mostPasses is how often a request passes the proxy at most: what the backend gets from another site of the
// machine may come by this proxy as well. One that goes in a circle is another one each time if its path grows.
const mostPasses = 5

// marks is the name of this process there; no other has it.
type marks struct {
	name string
	seed maphash.Seed
}

func (m *marks) init() {
	m.name, m.seed = "tempomat-"+strings.ToLower(rand.Text())+";for=", maphash.MakeSeed()
}

// of is what it says of a request to the backend: also what that asks for.
func (m *marks) of(r *http.Request) string {
	asks := maphash.Comparable(m.seed, struct {
		method, host, target string
		secure               bool
	}{r.Method, r.Host, target(r), r.TLS != nil})
	var b [64]byte
	return string(strconv.AppendUint(append(b[:0], m.name...), asks, 36))
}

// isCircle reports whether a request is one that this process has sent to the backend, or came of
// those again and again.
func (m *marks) isCircle(r *http.Request) bool {
	passed := r.Header[loopHeader]
	if len(passed) == 0 {
		return false
	}
	own, passes := m.of(r), 0
	for _, line := range passed {
		for mark := range strings.SplitSeq(line, ",") {
			if mark = textproto.TrimString(mark); mark == own {
				return true
			} else if strings.HasPrefix(mark, m.name) {
				passes++
			}
		}
	}
	return passes >= mostPasses
}

// tellsOrigin reports whether a backend may learn the client's address, the scheme, the host or
// the URL from a field of that name. A backend that reads such a field trusts it, so only those
// of trusted proxies pass. The names are those of the common proxies and content delivery
// networks.
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

// setForwarded tells the backend where the request came from. The client's own fields are still
// there only if it is a trusted proxy.
func (a *asked) setForwarded(in *http.Request) {
	if peer, _, err := net.SplitHostPort(in.RemoteAddr); err == nil {
		if before := a.fields.Values("X-Forwarded-For"); len(before) > 0 {
			peer = strings.Join(append(before, peer), ", ")
		}
		a.fields.Set("X-Forwarded-For", peer)
	}
	if in.Host != "" && !a.fields.Has("X-Forwarded-Host") { // HTTP/1.0 may name none
		a.fields.Add("X-Forwarded-Host", in.Host)
	}
	if !a.fields.Has("X-Forwarded-Proto") {
		proto := "http"
		if in.TLS != nil {
			proto = "https"
		}
		a.fields.Add("X-Forwarded-Proto", proto)
	}
}

// mayTrail reports whether a field may come after a body. A server that merges it into the header
// would trust late what was not checked: how the message is framed, where it goes, who sent it,
// what it may do, and how to read the content (RFC 9110, 6.5.1).
func mayTrail(name string) bool {
	switch name {
	case "Host", "Proxy", "Authorization", "Cookie", "Set-Cookie", "Expect", "Max-Forwards", "Cache-Control", "Pragma", "Range",
		"Realm", "Www-Authenticate", "Age", "Date", "Expires", "Location", "Retry-After", "Vary", "Warning":
		return false
	}
	return !isHop(name) && !isPrivate(name) && !tellsOrigin(name) && classify.FoldedName(name) == name &&
		!strings.HasPrefix(name, "Content-") && !strings.HasPrefix(name, "If-")
}

// trailers are the fields that may come after a body.
func trailers(src http1.Fields) (dst http1.Fields) {
	for _, f := range src {
		if mayTrail(f.Key) {
			dst = append(dst, f)
		}
	}
	return dst
}

// isPrivate reports whether the backend says something in that field to the proxy alone.
func isPrivate(name string) bool {
	return name == cpuaccount.CostHeader || name == standing.Header || name == numberHeader
}
