package classify

import (
	"strings"
	"testing"
)

// TestFamiliesAreDistinguished uses more User-Agents than the cache holds, so some share a place. Each gets its own
// family, both the first and the second time.
func TestFamiliesAreDistinguished(t *testing.T) {
	f := newFamilies()
	for range 2 {
		for i := range 3 * familySlots {
			name := "x" + string(rune('a'+i/26/26%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i%26))
			if got := f.read(name + "/1").family; got != name {
				t.Fatalf("%s has the family %q", name, got)
			}
		}
	}
}

// TestFamiliesAreBounded: the cache keeps no more of a long User-Agent than the classifier reads.
func TestFamiliesAreBounded(t *testing.T) {
	f := newFamilies()
	known := f.read("curl/" + strings.Repeat("1", 8*MaxAgentBytes))
	if known.family != "curl" || len(known.agent) != MaxAgentBytes {
		t.Errorf("%q keeps %d bytes", known.family, len(known.agent))
	}
}
