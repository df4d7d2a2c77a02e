package redis

import (
	"testing"

	"tempomat/limiter"
	"tempomat/limiter/limitertest"
)

// fleet is sidecars that share through one Redis.
type fleet struct {
	*wire
	policy limiter.Policy
}

func (f *fleet) Join(t testing.TB) limiter.Sharer {
	s, err := NewSharer(Options{Addresses: []string{f.address()}}, f.policy)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	limitertest.Sharers(t, func(t *testing.T, p limiter.Policy) limitertest.Fleet {
		return &fleet{newWire(t, startServer(t).Address), p}
	})
}
