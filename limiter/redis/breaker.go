package redis

import (
	"math/rand/v2"
	"sync"
	"time"
)

// How long Redis is left alone after a failure: twice as long each time, up to a
// second, so that sidecars agree again within two of its return.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// breaker keeps callers from waiting for a Redis that is away: after a failure
// all are turned away at once, but for one from time to time who tries. Its
// methods may be called concurrently.
type breaker struct {
	mu     sync.Mutex // guards the following
	pause  time.Duration
	closed bool // the last call succeeded
	trying bool // somebody is finding out
	next   time.Time
}

// admit says whether to call Redis now, and whether that is to find out if it is
// back. Who is admitted must tell what came of it.
func (b *breaker) admit(now time.Time) (ok, trial bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return true, false
	}
	if b.trying || now.Before(b.next) {
		return false, false
	}
	b.trying = true
	return true, b.pause > 0
}

// succeeded notes that Redis answered.
func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.trying, b.pause = true, false, 0
}

// failed notes that it did not. Of the calls under way when it went away, only
// the first one counts.
func (b *breaker) failed(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed && !b.trying {
		return
	}
	b.closed, b.trying = false, false
	b.pause = min(max(2*b.pause, firstPause), lastPause)
	b.next = now.Add(b.pause - rand.N(b.pause/4)) //nolint:gosec // so that sidecars do not all come at once
}

// abandoned notes that a call ended before anything was known of Redis.
func (b *breaker) abandoned() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
}

// connected says whether the last call succeeded.
func (b *breaker) connected() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}
