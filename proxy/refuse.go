package proxy

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"tempomat/classify/class"
	"tempomat/limiter"
	"tempomat/proxy/errorpage"
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
	x.outcome = telemetry.Refused
	p := refusal{RetryAfter: jitter(x.Verdict.Wait)}
	switch x.Verdict.Reason {
	case limiter.ServerFull:
		p.cause, p.Detail = errorpage.ServerFull, "This server has as many requests waiting as it can hold."
	case limiter.Busy:
		p.cause, p.Detail = errorpage.Busy, "This server was too busy to come to your request."
		if x.Verdict.Own {
			p.cause = errorpage.BusyOwn
			p.Detail = "This server was busy, and other requests of yours have, or had, what one client may have of it."
		}
	case limiter.Debt, limiter.ClientFull, limiter.None:
		p.setDebtor(x.Verdict.Key)
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

// fail answers a request that the backend did not.
func (x *exchange) fail(o telemetry.Outcome, c errorpage.Cause, detail string) {
	x.outcome = o
	x.answer(&refusal{cause: c, Detail: detail})
}

// pageRules are what a browser may do with a page of ours: show it, and load nothing.
const pageRules = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

func (x *exchange) answer(p *refusal) {
	x.identify()
	p.Status, p.RequestID = p.cause.Status(), x.id
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	h := x.writer.Header()
	h.Set(requestHeader, x.id)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	piece := x.handler.pieces.get(false)
	body := x.appendRefusal(piece[:0], p)
	x.writer.WriteHeader(p.Status)
	_, _ = x.writer.Write(body) // the client has gone: nobody to tell
	x.handler.pieces.put(piece)
}

// appendRefusal appends the body in the form that the client asks for, and says in the header
// which one it is.
func (x *exchange) appendRefusal(b []byte, p *refusal) []byte {
	h := x.writer.Header()
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
	kind, _ := class.Find(k.Class)
	switch kind.Whose {
	case class.Client:
		p.cause, p.address, who = errorpage.DebtOfAddress, k.ID, "Your address, "+k.ID+","
	case class.Network:
		p.cause, p.address, who = errorpage.DebtOfNetwork, k.ID, "Your network, "+k.ID+","
	case class.Program:
		p.cause, who = errorpage.DebtOfProgram, "The kind of program that you use"
	default:
		p.cause, who = errorpage.DebtOfGroup, "A group of requests that yours belongs to ("+k.Class+")"
	}
	p.Class, p.Detail = k.Class, who+" used more than its share of this server's time."
}

// jitter makes whole seconds of a wait, up to a quarter more of it, so that
// those who are refused together do not return together.
func jitter(wait time.Duration) int {
	s := wait.Seconds() * (1 + rand.Float64()/4) //nolint:gosec // spreads clients, hides nothing
	return max(1, int(math.Ceil(s)))
}
