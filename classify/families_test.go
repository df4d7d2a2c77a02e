package classify

import (
	"strings"
	"testing"
)

// TestFamiliesAreTold: more User-Agents than are remembered, so that some meet at a place: each
// has its own family, the first time and again.
func TestFamiliesAreTold(t *testing.T) {
	f := newFamilies()
	for range 2 {
		for i := range 3 * familySlots {
			name := "x" + string(rune('a'+i/26/26%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i%26))
			if got := f.read(name + "/1").family; got != name {
				t.Fatalf("%s is of the family %q", name, got)
			}
		}
	}
}

// TestFamiliesAreBounded: of a long User-Agent no more is remembered than is read.
func TestFamiliesAreBounded(t *testing.T) {
	f := newFamilies()
	known := f.read("curl/" + strings.Repeat("1", 8*maxAgentBytes))
	if known.family != "curl" || len(known.agent) != maxAgentBytes {
		t.Errorf("%q keeps %d bytes", known.family, len(known.agent))
	}
}
