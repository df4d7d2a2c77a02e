package classify

import "testing"

// TestEvidence: it is told by name, and what proves that a client is a person is what one
// request could not have, as long as it does not claim to be a robot that it is not.
func TestEvidence(t *testing.T) {
	for e, want := range map[Evidence]struct {
		text   string
		proves bool
	}{
		0:                              {"", false},
		Cookie:                         {"cookie", true},
		Parts:                          {"parts", true},
		Attested:                       {"attested", true},
		Contradiction:                  {"contradiction", false},
		Verified:                       {"verified", false},
		Forged:                         {"forged", false},
		Cookie | Forged:                {"cookie,forged", false},
		Parts | Contradiction:          {"parts,contradiction", true},
		Cookie | Parts | Contradiction: {"cookie,parts,contradiction", true},
	} {
		if got := e.String(); got != want.text || e.Proves() != want.proves {
			t.Errorf("%q proves: %t; want %q, %t", got, e.Proves(), want.text, want.proves)
		}
	}
}
