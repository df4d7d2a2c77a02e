package proxy

import (
	"context"
	"maps"
	"net/http"
	"net/textproto"
	"strconv"
	"time"

	"tempomat/classify"
	"tempomat/limiter"
	"tempomat/limiter/quota"
	"tempomat/proxy/errorpage"
	"tempomat/proxy/telemetry"
)

// RequestLimits limits how many requests clients make, whatever these cost; quota.Rules
// do. It must be safe for concurrent use.
type RequestLimits interface {
	// Count counts a request that is not exempt, and tells how the limits stand that
	// apply to it. It may wait for a bounded time, and no longer than the context.
	Count(ctx context.Context, now time.Time, of quota.Request) quota.Counted
}

// countRequest tells whether the request is one too many.
func (x *exchange) countRequest() bool {
	if x.policy.Requests == nil || x.Who.Exempt {
		return false
	}
	x.counted = x.policy.Requests.Count(x.request.Context(), x.arrived, quota.Request{
		Path: x.request.URL.Path, Kind: kindOf(&x.Who), From: &x.Who,
	})
	return x.counted.Blocked && !x.policy.Limits.Shadow && x.policy.Limits.Mode != limiter.Observe
}

func kindOf(who *classify.Result) quota.Kind {
	switch {
	case who.Evidence&classify.Attested != 0:
		return quota.Trusted
	case who.Evidence&classify.Cookie != 0:
		return quota.Session
	}
	return quota.Anonymous
}

// refuseCount answers a request that is one too many.
func (x *exchange) refuseCount() {
	x.outcome = telemetry.Refused
	after := max(1, int((x.counted.Wait+time.Second-1)/time.Second))
	x.answer(&refusal{
		cause: errorpage.OverLimit, Limit: x.counted.Limit, RetryAfter: after,
		Detail: "You made more requests than the limit " + x.counted.Limit + " allows. Please try again in " + strconv.Itoa(after) + " s.",
	})
}

// tellCount adds the fields that tell how the limits stand to a response, unless
// the backend speaks for itself: if it sets any of them, or another spelling of it, none is
// added.
func (x *exchange) tellCount(h http.Header) {
	for name := range x.counted.Fields {
		if _, told := h[textproto.CanonicalMIMEHeaderKey(name)]; told {
			return
		}
	}
	maps.Copy(h, x.counted.Fields)
}
