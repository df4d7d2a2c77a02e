package redis

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"tempomat/limiter"
)

// TestStatus: what all Sharers tell is made of what this one counts.
func TestStatus(t *testing.T) {
	s := State{Connected: true, RoundTrips: 1, Raised: 2, Dropped: 3, Failures: 4}
	want := limiter.SharingStatus{Up: map[string]bool{"redis": true}, Sent: 1, Received: 2, Dropped: 3, Failed: 4, Detail: s}
	if diff := cmp.Diff(want, s.status()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
