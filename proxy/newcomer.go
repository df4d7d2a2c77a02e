package proxy

import "time"

// patience tells when a request that waits is to be redirected, if it ever is.
func (x *exchange) patience() (over <-chan time.Time, stop func() bool) {
	d := x.Patience()
	if d == 0 {
		return nil, func() bool { return false }
	}
	timer := time.NewTimer(d)
	return timer.C, timer.Stop
}

// sendBack redirects a newcomer to where it wants to go.
func (x *exchange) sendBack() {
	x.outcome = Redirected
	x.Redirect(time.Now(), &x.writer)
}
