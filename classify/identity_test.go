package classify

import (
	"testing"

	"tempomat/limiter"
)

// TestIdentity: the address of a session and the pool of an unverified name differ from the networks.
func TestIdentity(t *testing.T) {
	name, pool := limiter.Key{Class: "robot", ID: "seekerbot"}, limiter.Key{Class: "robot", ID: "(others)"}
	a, b, c := limiter.Key{Class: "a", ID: "1"}, limiter.Key{Class: "b", ID: "2"}, limiter.Key{Class: "c", ID: "3"}
	of := func(session, pooled bool, keys ...limiter.Key) (r Result) {
		r.Session, r.Pooled, r.n = session, pooled, copy(r.keys[:], keys)
		return r
	}
	for name, x := range map[string]struct {
		of             Result
		client, within limiter.Key
		others         int
	}{
		"nobody":                                {of: of(false, false)},
		"an address":                            {of(false, false, a, b, c), a, limiter.Key{}, 2},
		"a session":                             {of(true, false, a, b, c), a, b, 1},
		"a made name":                           {of(false, true, name, pool, c), name, pool, 1},
		"a name that has no account of its own": {of(false, true, pool, b, c), pool, limiter.Key{}, 2},
		"by itself":                             {of(true, false, a), a, limiter.Key{}, 0},
	} {
		client, within, others := x.of.Identity()
		if client != x.client || within != x.within || len(others) != x.others || len(others) > 0 && others[len(others)-1] != x.of.Keys()[x.of.n-1] {
			t.Errorf("%s: %v within %v and %v", name, client, within, others)
		}
	}
}
