package limitertest

import (
	"testing"
	"time"
)

// patience is how long a test waits for what other processes or goroutines do, before it
// fails: far longer than any of it takes on a machine that is busy with other tests.
const patience = 30 * time.Second

// Eventually waits until something holds, and returns how long that took. The test fails if
// it does not come about, with what it was.
func Eventually(t testing.TB, what string, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for ; !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
	return time.Since(began)
}
