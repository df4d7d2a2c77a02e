package classify

import "testing"

// TestEvidence: each kind of evidence has its name. Evidence proves a person if a client can't have it with a single
// request, and if the client doesn't falsely claim to be a robot.
func TestEvidence(t *testing.T) {
	for e, want := range map[Evidence]struct {
		text   string
		proves bool
	}{
		0:               {"", false},
		Cookie:          {"cookie", true},
		Parts:           {"parts", true},
		Attested:        {"attested", true},
		Verified:        {"verified", false},
		Forged:          {"forged", false},
		Cookie | Forged: {"cookie,forged", false},
		Cookie | Parts:  {"cookie,parts", true},
	} {
		if got := e.String(); got != want.text || e.Proves() != want.proves {
			t.Errorf("got %q, proves %t; want %q, %t", got, e.Proves(), want.text, want.proves)
		}
	}
}
