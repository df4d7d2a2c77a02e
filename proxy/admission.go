package proxy

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"tempomat/limiter"
	"tempomat/limiter/quota"
	"tempomat/proxy/errorpage"
	"tempomat/proxy/http1"
	"tempomat/proxy/telemetry"
)

// countRequest reports whether the request is one too many.
func (x *exchange) countRequest() bool {
	if x.policy.Requests == nil || x.life.Who.Exempt {
		return false
	}
	x.counted = x.policy.Requests.Count(x.request.Context(), x.arrived, quota.Request{
		Path: x.request.URL.Path, From: &x.life.Who,
	})
	return x.counted.Blocked && !x.policy.Limits.Shadow && x.policy.Limits.Mode != limiter.Observe
}

// refuseCount answers a request that is one too many.
func (x *exchange) refuseCount() {
	x.log.outcome = telemetry.Refused
	after := max(1, int((x.counted.Wait+time.Second-1)/time.Second))
	x.answer(&refusal{
		cause: errorpage.OverLimit, Limit: x.counted.Limit, RetryAfter: after,
		Detail: "You made more requests than the limit " + x.counted.Limit + " allows. Please try again in " + strconv.Itoa(after) + " s.",
	})
}

// tellCount adds the fields that tell how the limits stand to a response, unless
// the backend speaks for itself: if it sets any of them, or another spelling of it, none is
// added.
func (x *exchange) tellCount() {
	if len(x.counted.Fields) == 0 {
		return
	}
	h := x.client.writer.Fields()
	for name := range x.counted.Fields {
		if h.Has(http1.Key(name)) {
			return
		}
	}
	for _, name := range slices.Sorted(maps.Keys(x.counted.Fields)) {
		for _, value := range x.counted.Fields[name] {
			h.Add(name, value)
		}
	}
}

const (
	// usualHead is the size of a header, in bytes, up to which it isn't counted: what a
	// connection is calculated to take before it has a request.
	usualHead = 8 << 10
	// fieldSize is what a line takes next to its text, in bytes.
	fieldSize = 128
	// streamSize is what a stream of HTTP/2 takes that has not sent all of its body, in bytes: a
	// connection has 250 of them, and counts as one.
	streamSize = 12 << 10
	// unreadSize is what a stream of HTTP/2 takes whose client does not read its answer, in bytes.
	unreadSize = 24 << 10
	// fewStreams is how many of a connection's are not counted.
	fewStreams = 8
	// mostHeads is how many bytes large headers may take until their requests are over, and
	// answers that are not read, unless BoundHeads says more. A client that sends its body byte
	// by byte, or does not read its answer, holds its own for as long as it likes, and in HTTP/2 a
	// byte may stand for a field of 4 KB.
	mostHeads = 64 << 20
)

// BoundHeads sets how many bytes all large headers, and answers that are not read, together may take.
func (h *Handler) BoundHeads(most int) { h.heads.Bound(most) }

// sizeOf is what is counted of a request whose head has so many bytes and lines, and whose stream of HTTP/2
// has not sent all (uploads); 0: it is no more than usual.
func sizeOf(head, lines int, uploads bool) int {
	size := head + lines*fieldSize
	if uploads {
		size += streamSize
	}
	if size <= usualHead {
		return 0
	}
	return size
}

// takesHead reports whether there is room for the request's header.
func (x *exchange) takesHead() bool {
	w := &x.client.writer
	size := sizeOf(w.HeadSize(), len(*w.Asked()), x.client.body.ReadCloser != nil && x.request.ProtoMajor == 2)
	if size == 0 {
		return true
	}
	ok, full := x.handler.heads.Take(x.life.Who.Client, size)
	if ok {
		x.client.room = size
		return true
	}
	x.life.Verdict = limiter.Verdict{Action: limiter.Refuse, Reason: limiter.ServerFull, Wait: time.Second}
	if keys := x.life.Who.Keys(); !full && len(keys) > 0 {
		x.life.Verdict.Reason, x.life.Verdict.Key = limiter.ClientFull, keys[0]
	}
	return false
}

// takesStream reports whether there is room for an answer over HTTP/2, which its client reads when it likes;
// of a connection that has many.
func (x *exchange) takesStream() bool {
	if x.client.room > 0 || !x.isCrowded() {
		return true
	}
	ok, _ := x.handler.heads.Take(x.life.Who.Client, unreadSize)
	if ok {
		x.client.room = unreadSize
	}
	return ok
}

// leaveHead says that the header is not counted any more.
func (x *exchange) leaveHead() {
	if x.client.room > 0 {
		x.handler.heads.GiveBack(x.life.Who.Client, x.client.room)
		x.client.room = 0
	}
}

// refuseHead answers a request if there is no room for its header.
func (x *exchange) refuseHead() {
	x.log.outcome = telemetry.Refused
	p := refusal{cause: errorpage.ServerFull, Detail: "This server has as many requests with long headers as it can hold.", RetryAfter: jitter(x.life.Verdict.Wait)}
	if x.life.Verdict.Reason == limiter.ClientFull {
		p.cause, p.Detail = errorpage.ClientFull, "Too many requests of yours with long headers are under way."
	}
	x.answer(&p)
}

// redirectDue tells when a request that waits is to be redirected, if it ever is. A
// client whose next request would be one too many is not asked for another one.
func (x *exchange) redirectDue() (over <-chan time.Time, stop func() bool) {
	var d time.Duration
	if !x.counted.Last {
		d = x.life.RedirectAfter()
	}
	if d == 0 {
		return nil, func() bool { return false }
	}
	timer := time.NewTimer(d)
	return timer.C, timer.Stop
}

// sendBack redirects a newcomer to where it wants to go.
func (x *exchange) sendBack() {
	x.log.outcome = telemetry.Redirected
	x.identify()
	x.client.writer.Fields().Set(requestHeader, x.id)
	x.life.Redirect(time.Now(), &x.client.writer)
}
