package testkit

import (
	"testing"
	"time"
)

// Patience is how long a test waits for other processes or goroutines before it fails. It is much longer than
// any such wait takes on a machine that is busy with other tests, and isn't a requirement on speed. For
// example, a certificate that couldn't be issued is requested again after a minute.
const Patience = 2 * time.Minute

// Eventually waits until holds returns true, and returns how long that took. If it takes longer than
// [Patience], the test fails with a message that contains what. Eventually calls holds every 2 ms; if holds is
// expensive, it may sleep before it returns.
func Eventually(t testing.TB, what string, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for ; !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Since(began) > Patience {
			t.Fatalf("not within %v: %s", Patience, what)
		}
	}
	return time.Since(began)
}

// Ready receives from a channel if it can without waiting, and returns whether it did.
func Ready[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
