package smockron

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"tempomat/limiter"
)

// TestStatus: what all Sharers tell is made of what the links count.
func TestStatus(t *testing.T) {
	links := []LinkState{
		{Master: "a", Present: true, Sent: 1, Orders: 2, Dropped: 3, Away: 4, Old: 5, Unsound: 6},
		{Master: "b", Sent: 1},
	}
	want := limiter.SharingStatus{
		Up:   map[string]bool{"master a": true, "master b": false},
		Sent: 2, Received: 2, Dropped: 12, Unsound: 6, Detail: links,
	}
	if diff := cmp.Diff(want, statusOf(links)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
