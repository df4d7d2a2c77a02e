package proxy

import (
	"time"

	"tempomat/proxy/telemetry"
)

// patience tells when a request that waits is to be redirected, if it ever is. A
// client whose next request would be one too many is not asked for another one.
func (x *exchange) patience() (over <-chan time.Time, stop func() bool) {
	var d time.Duration
	if !x.counted.Last {
		d = x.Patience()
	}
	if d == 0 {
		return nil, func() bool { return false }
	}
	timer := time.NewTimer(d)
	return timer.C, timer.Stop
}

// sendBack redirects a newcomer to where it wants to go.
func (x *exchange) sendBack() {
	x.outcome = telemetry.Redirected
	x.identify()
	x.writer.Header().Set(requestHeader, x.id)
	x.Redirect(time.Now(), &x.writer)
}
