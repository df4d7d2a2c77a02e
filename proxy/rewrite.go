package proxy

import (
	"crypto/rand"
	"hash/maphash"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"tempomat/classify"
	"tempomat/classify/newcomer"
	"tempomat/proxy/backend"
	"tempomat/proxy/errorpage"
	"tempomat/proxy/http1"
	"tempomat/proxy/telemetry"
)

// rewrite makes the backend's request from the client's. Host, path and query stay byte for byte as the
// client sent them. Only the fields about the connection and the client's address change.
func (u *Upstream) rewrite(x *exchange) *backend.Request {
	in, out := x.request, &x.backend.asked.request
	x.backend.asked.fields = x.passed(x.backend.asked.fields)
	x.backend.asked.setForwarded(in)
	x.backend.asked.fields = append(x.backend.asked.fields, http1.Field{Name: "CDN-Loop", Key: loopHeader, Value: x.handler.marks.of(in)})
	x.setNumber()
	*out = backend.Request{Method: in.Method, Target: target(in), Host: in.Host, Fields: x.backend.asked.fields, Hints: x}
	if body := &x.client.body; body.ReadCloser != nil {
		out.Body, out.Length, out.Ready = body, in.ContentLength, body.isReady()
		out.Trailer = func() http1.Fields { return trailers(x.client.writer.Trailer()) }
	}
	return out
}

// passed appends the fields of the client's request that the backend gets.
func (x *exchange) passed(fields http1.Fields) http1.Fields {
	asked := x.client.writer.Asked()
	r := rewriting{x: x, private: named(*asked), upgrade: mayUpgrade(x.upgradeAsked())}
	for _, f := range *asked {
		if value, ok := r.passed(f.Key, f.Value); ok && !(isHop(f.Key) && fields.Has(f.Key)) { // one such field is enough
			fields = append(fields, http1.Field{Name: f.Name, Key: f.Key, Value: value})
		}
	}
	return fields
}

// rewriting decides which fields of a request the backend gets.
type rewriting struct {
	x       *exchange
	private map[string]bool // fields that the Connection field names; set by named
	upgrade string          // protocol of a requested upgrade; empty: none
}

// passed returns the value of a field that the backend gets, and whether it gets the field.
func (r *rewriting) passed(key, value string) (string, bool) {
	// Some servers read a name with other characters, such as underscores, as the name with hyphens.
	// Such a field passes only if the configuration allows it and the other name means nothing to a proxy.
	if folded := classify.FoldedName(key); folded != key && !(r.x.policy.Underscores && mayTrail(folded)) {
		return "", false
	}
	switch {
	case isHop(key):
		return r.ofHop(key, value)
	case r.private[key], isPrivate(key), key == "Proxy":
		return "", false // only the backend may send private fields; CGI programs read Proxy as the setting HTTP_PROXY (CVE-2016-5385)
	case !r.x.life.Who.TrustedPeer && tellsOrigin(key):
		return "", false
	case key == "Cookie":
		kept := newcomer.StripLine(value) // the backend must not see the newcomer's pass
		return kept, kept != "" || value == ""
	case key == "Max-Forwards":
		if n, told := forwards(r.x.request); told {
			return strconv.FormatUint(n-1, 10), true
		}
	}
	return value, true
}

// ofHop is like passed, for a field that applies only to one connection.
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

// target returns the request's target as the client sent it. For an absolute URL it is the part
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

// upgradeOf returns the protocol that a header asks for or agrees to, or an empty string.
func upgradeOf(h http1.Fields) string {
	for _, f := range h {
		if f.Key == "Connection" && http1.HasToken(f.Value, "Upgrade") {
			return h.Get("Upgrade")
		}
	}
	return ""
}

// upgradeAsked returns the protocols that the client asks for; empty: none. HTTP/1.0 requests can't ask for
// an upgrade (RFC 9110, 7.8). Neither can requests with a body, because the body could still be in transit
// when the connection changes protocols.
func (x *exchange) upgradeAsked() string {
	if !x.request.ProtoAtLeast(1, 1) || x.client.body.ReadCloser != nil {
		return ""
	}
	return upgradeOf(*x.client.writer.Asked())
}

// mayUpgrade returns the first of these protocols to which a connection may change; empty: none. The proxy
// doesn't look into upgraded connections, so a client that upgraded to h2c could bypass all checks.
func mayUpgrade(asked string) string {
	for protocol := range strings.SplitSeq(asked, ",") {
		protocol = textproto.TrimString(protocol)
		if strings.EqualFold(protocolName(protocol), "websocket") && printable(protocol) {
			return protocol
		}
	}
	return ""
}

// protocolName returns a protocol's name without its version.
func protocolName(protocol string) string {
	name, _, _ := strings.Cut(protocol, "/")
	return name
}

// printable reports whether s contains only printable ASCII.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// forwards returns how many more times a request may be forwarded, according to Max-Forwards (RFC 9110,
// 7.6.2); false: the request has no such field, or its method ignores the field.
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

// endsHere reports whether the proxy itself must answer the request, because Max-Forwards is 0.
func endsHere(r *http.Request) bool {
	n, told := forwards(r)
	return told && n == 0
}

// answerHere answers a request that endsHere. It rejects TRACE, whose answer would show the client fields
// that only the proxies on the way should see.
func (x *exchange) answerHere() {
	if x.request.Method == http.MethodTrace {
		x.client.writer.Fields().Set("Allow", "OPTIONS")
		x.fail(telemetry.Refused, errorpage.WrongMethod)
		return
	}
	x.client.writer.WriteHeader(http.StatusNoContent)
}

// loopHeader is the field in which proxies mark the requests that pass through them (RFC 8586).
const loopHeader = "Cdn-Loop"

// mostPasses is how often a request may pass through this proxy. Once is too few, because a page of the
// backend may request another site of the same machine through this proxy. The limit ends loops that isCircle
// can't recognise because the path grows each time.
const mostPasses = 5

// marks makes the marks that this process adds to requests in loopHeader, and recognises them.
type marks struct {
	name string
	seed maphash.Seed
}

func (m *marks) init() {
	m.name, m.seed = "tempomat-"+strings.ToLower(rand.Text())+";for=", maphash.MakeSeed()
}

// of returns the mark of a request: the process, and a hash of the request's method, host and target.
func (m *marks) of(r *http.Request) string {
	asks := maphash.Comparable(m.seed, struct {
		method, host, target string
		secure               bool
	}{r.Method, r.Host, target(r), r.TLS != nil})
	var b [64]byte
	return string(strconv.AppendUint(append(b[:0], m.name...), asks, 32))
}

// isCircle reports whether this process has already sent the same request to the backend, or the request has
// passed through this process too often.
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

// setForwarded tells the backend where the request came from. It keeps fields that a trusted proxy set.
func (a *asked) setForwarded(in *http.Request) {
	if peer, _, err := net.SplitHostPort(in.RemoteAddr); err == nil {
		if before := a.fields.Values("X-Forwarded-For"); len(before) > 0 {
			peer = strings.Join(append(before, peer), ", ")
		}
		a.fields.Set("X-Forwarded-For", peer)
	}
	if in.Host != "" && !a.fields.Has("X-Forwarded-Host") { // a request of HTTP/1.0 may have no host
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
