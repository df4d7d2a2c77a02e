package proxy

import (
	"time"

	"tempomat/limiter"
	"tempomat/limiter/quota"
	"tempomat/proxy/errorpage"
	"tempomat/proxy/telemetry"
)

// countRequest counts the request, and reports whether it exceeds a request limit.
func (x *exchange) countRequest() bool {
	if x.policy.Requests == nil || x.life.Who.Exempt {
		return false
	}
	x.counted = x.policy.Requests.Count(x.request.Context(), x.arrived, quota.Request{
		Path: x.request.URL.Path, From: &x.life.Who,
	})
	return x.counted.Blocked && !x.policy.Limits.Shadow && x.policy.Limits.Mode != limiter.Observe
}

// refuseCount answers a request that exceeds a request limit.
func (x *exchange) refuseCount() {
	x.log.outcome = telemetry.Refused
	after := max(1, int((x.counted.Wait+time.Second-1)/time.Second))
	x.answer(&refusal{cause: errorpage.OverLimit, Limit: x.counted.Limit, RetryAfter: after})
}

const (
	// usualHead is the size in bytes up to which a header isn't counted, because the limit on connections
	// already allows for this size.
	usualHead = 8 << 10
	// fieldSize is the memory that a header line takes in addition to its text, in bytes.
	fieldSize = 128
	// streamSize is the memory, in bytes, of an HTTP/2 stream whose body isn't complete. It is counted
	// because a connection may have 250 such streams, but counts as only one connection.
	streamSize = 12 << 10
	// mostHeads limits the total size, in bytes, of large headers and unread answers, unless BoundHeads sets a
	// different limit. The limit is needed because a client that sends its body byte by byte, or doesn't read
	// its answer, can keep its header in memory for as long as it likes. With HTTP/2's compression, a single
	// byte may stand for a field of 4 KB.
	mostHeads = 64 << 20
)

// BoundHeads limits the total size, in bytes, of large headers and unread answers.
func (h *Handler) BoundHeads(most int) { h.heads.Bound(most) }

// sizeOf returns how many bytes are counted for a request whose header has the given numbers of bytes and lines. It
// returns 0 for a header of the usual size. uploads is true for an HTTP/2 stream whose body isn't complete.
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

// takesHead reserves memory for the request's header. It returns false if there is no room.
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

// leaveHead releases the memory that takesHead reserved.
func (x *exchange) leaveHead() {
	if x.client.room > 0 {
		x.handler.heads.GiveBack(x.life.Who.Client, x.client.room)
		x.client.room = 0
	}
}

// redirectDue returns a channel that fires when the waiting request should be redirected; nil means never. A
// client whose next request would exceed a limit isn't redirected, because it couldn't follow.
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

// sendBack redirects a newcomer to the page that it asked for.
func (x *exchange) sendBack() {
	x.log.outcome = telemetry.Redirected
	x.identify()
	x.client.writer.Fields().Set(requestHeader, x.id)
	x.life.Redirect(time.Now(), &x.client.writer)
}
