package proxy

import (
	"crypto/rand"
	"hash/maphash"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"tempomat/proxy/errorpage"
	"tempomat/proxy/http1"
	"tempomat/proxy/telemetry"
)

// Hops is what of a message is for each stretch of its way, and not to be passed on as it is.
type Hops struct {
	Underscores bool     // header names of more than letters, digits and hyphens reach the backend
	Upgrades    []string // the protocols that a connection may change to; others are not asked for
	Via         string   // what the proxy calls itself there; empty: nothing
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

// endsHere tells whether a request asks after this proxy, and not after the backend.
func endsHere(r *http.Request) bool {
	n, told := forwards(r)
	return told && n == 0
}

// answerHere answers a request that asks after this proxy. TRACE is not done here: it
// would show what only the proxy and the client's own proxies know.
func (x *exchange) answerHere() {
	if x.request.Method == http.MethodTrace {
		x.writer.Header().Set("Allow", "OPTIONS")
		x.fail(telemetry.Refused, errorpage.WrongMethod, "This proxy answers no TRACE.")
		return
	}
	x.writer.WriteHeader(http.StatusNoContent)
}

// oneLess is Max-Forwards as the backend gets it.
func oneLess(in *http.Request, values []string) []string {
	if n, told := forwards(in); told {
		return []string{strconv.FormatUint(n-1, 10)}
	}
	return values
}

// loopHeader tells proxies which of them a request has passed (RFC 8586).
const loopHeader = "Cdn-Loop"

// mostPasses is how often a request passes the proxy at most: what the backend gets from another site of the
// machine may come by this proxy, too. One that goes in a circle is another one each time if its path grows.
const mostPasses = 5

// marks is what one process calls itself there, as no other does.
type marks struct {
	name  string
	seed  maphash.Seed
	texts http1.Texts
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
	text := m.texts.Borrow(nil, len(b))
	defer m.texts.Return(text)
	return text.Of(strconv.AppendUint(append(b[:0], m.name...), asks, 36))
}

// isCircle tells whether a request is one that this process has sent to the backend, or came of
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

// setMark has a request known that comes back.
func (a *asked) setMark(m *marks, in *http.Request) {
	a.mark[0] = m.of(in)
	a.fields = append(a.fields, http1.Line{Name: http1.Name{Written: "CDN-Loop", Canonical: loopHeader}, Values: a.mark[:]})
}

// via adds the proxy to those that a message came by (RFC 9110, 7.6.3), which it was to have
// a name for. Major is the version of HTTP that the message came in.
func (p *Policy) via(before []string, major int) []string {
	if major == 2 {
		return append(slices.Clip(before), "2.0 "+p.Via)
	}
	return append(slices.Clip(before), "1.1 "+p.Via)
}

// setVia says so of a request, if the proxy has a name.
func (a *asked) setVia(p *Policy, in *http.Request) {
	if p.Via != "" {
		a.fields.Set("Via", p.via(a.fields.Get("Via"), in.ProtoMajor))
	}
}
