package gossip

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"tempomat/limiter"
)

// TestStatus: what all Sharers tell is made of what this one counts.
func TestStatus(t *testing.T) {
	s := State{
		Sidecars: 3, Peers: []PeerState{{}, {}},
		Counts: Counts{Sent: 1, Received: 2, Dropped: 3, Unsendable: 5, Malformed: 6},
	}
	want := limiter.SharingStatus{
		Up: map[string]bool{"other sidecars": true}, Peers: 2,
		Sent: 1, Received: 2, Dropped: 3, Failed: 5, Unsound: 6, Detail: s,
	}
	if diff := cmp.Diff(want, s.status()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := (State{Sidecars: 1}).status(); got.Up["other sidecars"] || got.Peers != 0 {
		t.Errorf("alone: %+v", got)
	}
}
