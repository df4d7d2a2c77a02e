package testkit

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what other processes or goroutines do, before it
// fails: far longer than any of it takes on a machine that is busy with other tests. It
// says nothing about how fast that should be. A certificate that was not issued at first is
// asked for again after a minute.
const Patience = 2 * time.Minute

// Eventually waits until something holds, and returns how long that took. The test fails if
// it does not come about within [Patience], with what it was. It asks every 2 ms; what is
// expensive to ask may sleep by itself.
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
