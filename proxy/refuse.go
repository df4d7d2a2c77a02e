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

// refusal is the answer to a client that isn't served: a page, a few lines of plain text, or problem
// details (RFC 9457).
type refusal struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	Class      string `json:"class,omitempty"`
	Limit      string `json:"limit,omitempty"`
	RetryAfter int    `json:"retryAfter,omitempty"` // seconds after which to try again
	RequestID  string `json:"requestId"`

	cause   errorpage.Cause
	address string // the client's address or network, if that is the reason
}

// refuse answers a request that the limiter rejects, or whose header doesn't fit into the memory for large headers.
func (x *exchange) refuse() {
	x.log.outcome = telemetry.Refused
	p := refusal{RetryAfter: jitter(x.life.Verdict.Wait)}
	switch x.life.Verdict.Reason {
	case limiter.ServerFull:
		p.cause = errorpage.ServerFull
	case limiter.ClientFull:
		p.cause = errorpage.ClientFull
	case limiter.Busy:
		p.cause = errorpage.Busy
		if x.life.Verdict.Own {
			p.cause = errorpage.BusyOwn
		}
	case limiter.Debt, limiter.None:
		p.setDebtor(x.life.Verdict.Key)
		if x.policy.Unavailable[p.Class] {
			p.cause = errorpage.DebtOfDomain
		}
	}
	x.answer(&p)
}

// refuseUnsound answers a request that isn't valid HTTP.
func (x *exchange) refuseUnsound() { x.fail(telemetry.Refused, errorpage.Unsound) }

// refuseCircle answers a request that came from this proxy.
func (x *exchange) refuseCircle() {
	x.policy.Upstream.log.Error("a request came back to this proxy: the setting backend leads to the proxy itself. Set it to the address of the web server",
		zap.String("host", telemetry.Clip(x.request.Host)), zap.String("client", telemetry.Clip(x.request.RemoteAddr)))
	x.fail(telemetry.Refused, errorpage.Circle)
}

// fail answers a request instead of the backend.
func (x *exchange) fail(o telemetry.Outcome, c errorpage.Cause) {
	x.log.outcome = o
	x.answer(&refusal{cause: c})
}

// pageRules is the Content-Security-Policy of tempomat's own pages: a browser may show them, but load
// nothing from elsewhere.
const pageRules = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

// acceptSignature asks a robot to sign its requests (Web Bot Auth; RFC 9421, 5.1). Some robots sign only if
// they are asked.
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
	piece := x.handler.pieces.get(smallPiece)
	body := x.appendRefusal(piece[:0], p)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.client.writer.WriteHeader(p.Status)
	_, _ = x.client.writer.Write(body) // it fails only if the client has disconnected or doesn't read
	x.handler.pieces.put(piece)
}

// appendRefusal appends the body in the form that the client asks for, and sets the header fields for this
// form.
func (x *exchange) appendRefusal(b []byte, p *refusal) []byte {
	h := x.client.writer.Fields()
	page := x.policy.Pages.Find(x.request.Host, x.request.Header["Accept-Language"], p.cause)
	values := errorpage.Values{RequestID: p.RequestID, Client: p.address, RetryAfter: p.RetryAfter}
	h.Set("Content-Language", page.Language())
	switch errorpage.WishOf(x.request.Header["Accept"]) {
	case errorpage.JSON:
		h.Set("Content-Type", "application/problem+json")
		p.Detail = string(page.AppendText(nil, &values))
		text, _ := json.Marshal(p) // can't fail, because p has only text and numbers
		return append(append(b, text...), '\n')
	case errorpage.HTML:
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Content-Security-Policy", pageRules)
		return page.AppendHTML(b, &values)
	case errorpage.Text:
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	b = append(strconv.AppendInt(b, int64(p.Status), 10), ' ')
	b = page.AppendText(append(append(b, p.Title...), "\n\n"...), &values)
	return append(append(append(b, "\n(request "...), p.RequestID...), ")\n"...)
}

// setDebtor sets which key is in debt. The page shows only the client's own address or network, and no text
// that the client could have made up.
func (p *refusal) setDebtor(k limiter.Key) {
	p.Class = k.Class
	kind, _ := classify.KindOf(k.Class)
	switch kind.Whose {
	case classify.OfClient:
		p.cause, p.address = errorpage.DebtOfAddress, k.ID
	case classify.OfNetwork:
		p.cause, p.address = errorpage.DebtOfNetwork, k.ID
	case classify.OfProgram:
		p.cause = errorpage.DebtOfProgram
	default:
		p.cause = errorpage.DebtOfGroup
	}
}

// jitter adds up to a quarter to a wait and rounds it up to whole seconds, so clients that are rejected
// together don't return together.
func jitter(wait time.Duration) int {
	s := wait.Seconds() * (1 + rand.Float64()/4) //nolint:gosec // spreads clients, needn't be secret
	return max(1, int(math.Ceil(s)))
}

// requestHeader is the field with the request's id in tempomat's own answers. The log line has the same id.
const requestHeader = "X-Request-Id"

// identify gives the request an id if it has none: eight hexadecimal digits.
func (x *exchange) identify() {
	if x.id == "" {
		var id [4]byte
		binary.BigEndian.PutUint32(id[:], rand.Uint32()) //nolint:gosec // the id isn't secret: it only helps to find a log line
		x.id = hex.EncodeToString(id[:])
	}
}

// longestID bounds an id that another proxy gave, in bytes.
const longestID = 64

// givenID returns the request's id from a trusted proxy. It is empty if there is none, or if it isn't safe to
// show in pages, headers and logs.
func givenID(h http.Header) string {
	for _, name := range [...]string{"X-Request-Id", "Request-Id"} {
		if lines := h[name]; len(lines) == 1 && isSoundID(lines[0]) {
			return strings.Clone(lines[0]) // the original would keep the memory of the whole header
		}
	}
	return ""
}

// isSoundID reports whether an id is safe, as it is, in a page, a header, a log or a terminal, and as an
// argument of a program. There it must not look like an option.
func isSoundID(id string) bool {
	for i := range len(id) {
		c := id[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.:=+/@", c) >= 0) {
			return false
		}
	}
	return id != "" && id[0] != '-' && len(id) <= longestID
}

// isSound reports whether all backends would understand the request in the same way. Package http1 has already
// checked the method and the target of an HTTP/1 request.
func isSound(r *http.Request) bool {
	return isSoundHost(r) && (r.ProtoMajor < 2 || http1.IsToken(r.Method) && http1.IsTarget(r.RequestURI) && isSoundStream(r))
}

// isSoundHost reports whether the host is valid. An HTTP/1.0 client may omit it.
func isSoundHost(r *http.Request) bool {
	return http1.IsHost(r.Host) || r.Host == "" && !r.ProtoAtLeast(1, 1)
}

// isSoundStream reports whether an HTTP/2 request names only one host. A client could name others with an
// absolute URL instead of the path, or with a Host field in addition to the authority (RFC 9113, 8.3.1).
func isSoundStream(r *http.Request) bool {
	for _, host := range r.Header["Host"] {
		if !strings.EqualFold(host, r.Host) || len(r.Header["Host"]) > 1 {
			return false
		}
	}
	switch r.Method {
	case http.MethodConnect:
		return true // CONNECT is rejected later
	case http.MethodOptions:
		return r.RequestURI == "*" || strings.HasPrefix(r.RequestURI, "/")
	}
	return strings.HasPrefix(r.RequestURI, "/")
}
