package proxy

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"tempomat/classify"
	"tempomat/limiter"
	"tempomat/proxy/errorpage"
	"tempomat/proxy/http1"
	"tempomat/proxy/telemetry"
)

// refusal is what a client is told that is not served: a page, a few lines of plain text,
// or problem details (RFC 9457).
type refusal struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	Class      string `json:"class,omitempty"`
	Limit      string `json:"limit,omitempty"`
	RetryAfter int    `json:"retryAfter,omitempty"` // seconds
	RequestID  string `json:"requestId"`

	cause   errorpage.Cause
	address string // the client's own address or network, where that is the reason
}

// refuse answers a request that the limiter does not let through.
func (x *exchange) refuse() {
	x.log.outcome = telemetry.Refused
	p := refusal{RetryAfter: jitter(x.life.Verdict.Wait)}
	switch x.life.Verdict.Reason {
	case limiter.ServerFull:
		p.cause, p.Detail = errorpage.ServerFull, "This server has as many requests waiting as it can hold."
	case limiter.Busy:
		p.cause, p.Detail = errorpage.Busy, "This server was too busy to come to your request."
		if x.life.Verdict.Own {
			p.cause = errorpage.BusyOwn
			p.Detail = "This server was busy, and other requests of yours have, or had, what one client may have of it."
		}
	case limiter.Debt, limiter.ClientFull, limiter.None:
		p.setDebtor(x.life.Verdict.Key)
		if x.policy.Unavailable[p.Class] {
			p.cause = errorpage.DebtOfDomain
		}
	}
	p.Detail += " Please try again in " + strconv.Itoa(p.RetryAfter) + " s."
	x.answer(&p)
}

// refuseUnsound answers what is no request of HTTP.
func (x *exchange) refuseUnsound() {
	x.fail(telemetry.Refused, errorpage.Unsound, "The request's method, host or URL has what may not be in it, such as a space or a fragment.")
}

// refuseCircle answers a request that came from this proxy.
func (x *exchange) refuseCircle() {
	x.policy.Upstream.log.Error("a request came back to this proxy: the backend's address leads here. Set backend to the address of the web server",
		zap.String("host", telemetry.Clip(x.request.Host)), zap.String("client", telemetry.Clip(x.request.RemoteAddr)))
	x.fail(telemetry.Refused, errorpage.Circle, "This site's requests come back to where they came from. Its administrator has to set that right.")
}

// fail answers a request that the backend did not.
func (x *exchange) fail(o telemetry.Outcome, c errorpage.Cause, detail string) {
	x.log.outcome = o
	x.answer(&refusal{cause: c, Detail: detail})
}

// pageRules are what a browser may do with a page of ours: show it, and load nothing.
const pageRules = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

// acceptSignature asks a robot to sign its requests (Web Bot Auth; RFC 9421, 5.1): some do it only
// if they are asked.
const acceptSignature = `sig1=("@authority" "signature-agent");created;expires;keyid;tag="web-bot-auth"`

func (x *exchange) answer(p *refusal) {
	x.identify()
	p.Status, p.RequestID = p.cause.Status(), x.id
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	h := x.client.writer.Fields()
	h.Set(requestHeader, x.id)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if x.life.Who.Robot && (p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable) {
		h.Set("Accept-Signature", acceptSignature)
	}
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	piece := x.handler.pieces.get(false)
	body := x.appendRefusal(piece[:0], p)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.client.writer.WriteHeader(p.Status)
	_, _ = x.client.writer.Write(body) // the client has gone: nobody to tell
	x.handler.pieces.put(piece)
}

// appendRefusal appends the body in the form that the client asks for, and says in the header
// which one it is.
func (x *exchange) appendRefusal(b []byte, p *refusal) []byte {
	h := x.client.writer.Fields()
	wish := errorpage.WishOf(x.request.Header["Accept"])
	switch {
	case wish == errorpage.JSON:
		h.Set("Content-Type", "application/problem+json")
		text, _ := json.Marshal(p) // text and numbers: it cannot fail
		return append(append(b, text...), '\n')
	case wish == errorpage.HTML && x.policy.Pages != nil:
		page := x.policy.Pages.Find(x.request.Host, x.request.Header["Accept-Language"], p.cause)
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Language", page.Language())
		h.Set("Content-Security-Policy", pageRules)
		return page.Append(b, &errorpage.Values{RequestID: p.RequestID, Client: p.address, RetryAfter: p.RetryAfter})
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	b = append(strconv.AppendInt(b, int64(p.Status), 10), ' ')
	b = append(append(append(b, p.Title...), "\n\n"...), p.Detail...)
	return append(append(append(b, "\n(request "...), p.RequestID...), ")\n"...)
}

// setDebtor says whose debt it is. Only the client's own key is repeated to it, and
// nothing that it could have made up.
func (p *refusal) setDebtor(k limiter.Key) {
	var who string
	kind, _ := classify.KindOf(k.Class)
	switch kind.Whose {
	case classify.OfClient:
		p.cause, p.address, who = errorpage.DebtOfAddress, k.ID, "Your address, "+k.ID+","
	case classify.OfNetwork:
		p.cause, p.address, who = errorpage.DebtOfNetwork, k.ID, "Your network, "+k.ID+","
	case classify.OfProgram:
		p.cause, who = errorpage.DebtOfProgram, "The kind of program that you use"
	default:
		p.cause, who = errorpage.DebtOfGroup, "A group of requests like yours ("+k.Class+")"
	}
	p.Class, p.Detail = k.Class, who+" used more than its share of this server's time."
}

// jitter rounds a wait to whole seconds and adds up to a quarter, so clients that are refused
// together do not return together.
func jitter(wait time.Duration) int {
	s := wait.Seconds() * (1 + rand.Float64()/4) //nolint:gosec // spreads clients, hides nothing
	return max(1, int(math.Ceil(s)))
}

// requestHeader is the field of an answer that tempomat itself makes which has the id of
// the request: that of the log line, to ask after it.
const requestHeader = "X-Request-Id"

// identify gives the request an id, if it has none: eight hexadecimal digits.
func (x *exchange) identify() {
	if x.id == "" {
		var id [4]byte
		binary.BigEndian.PutUint32(id[:], rand.Uint32()) //nolint:gosec // to find a log line by, nothing secret
		x.id = hex.EncodeToString(id[:])
	}
}

// longestID is how many bytes an id has at most that a proxy before this one gave.
const longestID = 64

// givenID is the id that a trusted proxy gave the request; empty: none, or none that
// may be shown anywhere.
func givenID(h http.Header) string {
	for _, name := range [...]string{"X-Request-Id", "Request-Id"} {
		if lines := h[name]; len(lines) == 1 && isSoundID(lines[0]) {
			return strings.Clone(lines[0]) // or it would keep the memory of the whole header
		}
	}
	return ""
}

// isSoundID reports whether an id may be shown as it is, in a page, a header, a log or a
// terminal, and given to a program: it must not pass for an option.
func isSoundID(id string) bool {
	for i := range len(id) {
		c := id[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.:=+/@", c) >= 0) {
			return false
		}
	}
	return id != "" && id[0] != '-' && len(id) <= longestID
}

// isSound reports whether every backend reads the same in a request.
func isSound(r *http.Request) bool {
	return http1.IsToken(r.Method) && http1.IsTarget(r.RequestURI) && isSoundHost(r) &&
		(r.ProtoMajor < 2 || isSoundStream(r))
}

// isSoundHost reports it for the host. A client of HTTP/1.0 may name none.
func isSoundHost(r *http.Request) bool {
	return http1.IsHost(r.Host) || r.Host == "" && !r.ProtoAtLeast(1, 1)
}

// isSoundStream tells it of a request of HTTP/2, which has no line that a space could end,
// and lets much be said twice: an absolute URL as a path, a host next to the authority (RFC 9113,
// 8.3.1).
func isSoundStream(r *http.Request) bool {
	for _, host := range r.Header["Host"] {
		if !strings.EqualFold(host, r.Host) || len(r.Header["Host"]) > 1 {
			return false
		}
	}
	switch r.Method {
	case http.MethodConnect:
		return true // no resolver is asked
	case http.MethodOptions:
		return r.RequestURI == "*" || strings.HasPrefix(r.RequestURI, "/")
	}
	return strings.HasPrefix(r.RequestURI, "/")
}

// wantsRobots reports whether a request is for what tells robots where to go, and that is ours
// to answer.
func (x *exchange) wantsRobots() bool {
	r := x.request
	return x.policy.RobotsTxt != nil && r.URL.Path == "/robots.txt" && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// sendRobots answers it. Nothing is charged, because the backend does nothing.
func (x *exchange) sendRobots() {
	h := x.client.writer.Fields()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "max-age=3600") // robots keep it for a day at most (RFC 9309, 2.4)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(x.policy.RobotsTxt)))
	x.client.writer.WriteHeader(http.StatusOK)
	_, _ = x.client.writer.Write(x.policy.RobotsTxt) // the client has gone: nobody to tell
}
