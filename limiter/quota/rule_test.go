package quota

import (
	"testing"
	"time"

	"tempomat/internal/testkit"
)

func TestDraftFields(t *testing.T) {
	var s standings
	s.add(`log "in"`, Bucket{Size: 10, DripRate: 1500, DripSize: 4}, Status{Remaining: 3, FullReset: 2500 * time.Millisecond})
	want := map[string][]string{"RateLimit-Policy": {`"log \"in\"";q=10;qu="requests";w=5`}, "RateLimit": {`"log \"in\"";r=3;t=3`}}
	testkit.Same(t, want, s.fields(Draft), "fields")
}
