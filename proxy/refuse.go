package proxy

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/telemetry"
)

// refusal is what a client is told that is not served: as a line of plain text,
// or as problem details (RFC 9457).
type refusal struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	Class      string `json:"class,omitempty"`
	Limit      string `json:"limit,omitempty"`
	RetryAfter int    `json:"retryAfter,omitempty"` // seconds
	RequestID  string `json:"requestId"`
}

// refuse answers a request that the limiter does not let through.
func (x *exchange) refuse() {
	x.outcome = telemetry.Refused
	after := jitter(x.Verdict.Wait)
	p := refusal{Status: http.StatusTooManyRequests, Class: x.Verdict.Key.Class, RetryAfter: after}
	switch x.Verdict.Reason {
	case limiter.ServerFull:
		p.Status, p.Class = http.StatusServiceUnavailable, ""
		p.Detail = "This server has as many requests waiting as it can hold."
	case limiter.Busy:
		p.Status, p.Class = http.StatusServiceUnavailable, ""
		p.Detail = "This server was too busy to come to your request."
		if x.Verdict.Own {
			p.Detail = "This server was busy, and other requests of yours have, or had, what one client may have of it."
		}
	case limiter.ClientFull:
		p.Detail = "Too many requests of yours are waiting already."
	case limiter.Debt, limiter.None:
		p.Detail = fmt.Sprintf("%s used more than its share of this server's time.", whose(x.Verdict.Key))
	}
	p.Detail += fmt.Sprintf(" Please try again in %d s.", after)
	x.answer(p)
}

// refuseUnsound answers what is no request of HTTP.
func (x *exchange) refuseUnsound() {
	x.outcome = telemetry.Refused
	x.answer(refusal{Status: http.StatusBadRequest, Detail: "The request's method, host or URL has what may not be in it, such as a space or a fragment."})
}

// fail answers a request that the backend did not.
func (x *exchange) fail(o telemetry.Outcome, status int, detail string) {
	x.outcome = o
	x.answer(refusal{Status: status, Detail: detail})
}

func (x *exchange) answer(p refusal) {
	x.identify()
	p.Type, p.Title, p.RequestID = "about:blank", http.StatusText(p.Status), x.id
	h := x.writer.Header()
	h.Set(requestHeader, x.id)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if wantsJSON(x.request) {
		h.Set("Content-Type", "application/problem+json")
		x.writer.WriteHeader(p.Status)
		_ = json.NewEncoder(&x.writer).Encode(p) // the client has gone: nobody to tell
		return
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	x.writer.WriteHeader(p.Status)
	_, _ = fmt.Fprintf(&x.writer, "%d %s\n\n%s\n(request %s)\n", p.Status, p.Title, p.Detail, p.RequestID)
}

// whose names a key in words. Only the client's own key is repeated to it, and
// nothing that it could have made up.
func whose(k limiter.Key) string {
	switch k.Class {
	case "slash32":
		return "Your address, " + k.ID + ","
	case "slash24", "slash16":
		return "Your network, " + k.ID + ","
	case "userAgent":
		return "The kind of program that you use"
	}
	return "A group of requests that yours belongs to (" + k.Class + ")"
}

// jitter makes whole seconds of a wait, up to a quarter more of it, so that
// those who are refused together do not return together.
func jitter(wait time.Duration) int {
	s := wait.Seconds() * (1 + rand.Float64()/4) //nolint:gosec // spreads clients, hides nothing
	return max(1, int(math.Ceil(s)))
}

// wantsJSON tells whether the client asks for JSON and not for a page.
func wantsJSON(r *http.Request) bool {
	accept := strings.Join(r.Header["Accept"], ",")
	return strings.Contains(accept, "json") && !strings.Contains(accept, "text/html")
}
