package handover

import (
	"testing"

	"tempomat/internal/testkit"
)

// TestNames: the next process finds a socket by its name, and ignores the names that other programs use.
func TestNames(t *testing.T) {
	for name, want := range map[string]Socket{
		"kept-%3A80": {Address: ":80"}, "kept-0.0.0.0%3A80": {Address: "0.0.0.0:80"},
		"kept-unix%3A%2Frun%2Fa": {Address: "unix:/run/a"}, supervised: {},
	} {
		if got := named(nil, name); got != want || got.name() != name {
			t.Errorf("%q: %+v named %q, want %+v", name, got, got.name(), want)
		}
	}
	for _, name := range []string{"", "stored", "tempomat-proxy.socket", "kept-", "kept-%zz"} {
		testkit.Same(t, Socket{}, named(nil, name), "%q", name)
	}
}
