package redis

import (
	"context"
	"testing"
	"time"

	"tempomat/internal/sim"
	"tempomat/limiter"
	"tempomat/limiter/quota"
	"tempomat/limiter/quota/quotatest"
)

// fleet is sidecars that share through one Redis.
type fleet struct {
	*wire
	policy limiter.Policy
}

func (f *fleet) Join(t testing.TB) limiter.Sharer {
	return NewSharer(Options{Addresses: []string{f.address()}}, f.policy)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	sim.Sharers(t, func(t *testing.T, p limiter.Policy) sim.Fleet {
		return &fleet{newWire(t, startServer(t).Address), p}
	})
}

// timed checks by the time that it is given, where a Checker goes by the server's clock.
type timed struct{ *Checker }

func (c timed) Check(ctx context.Context, now time.Time, actor, name string, b quota.Bucket, units int64) (quota.Status, error) {
	return c.check(ctx, c.names.bucket(name, actor), b, units, now.UnixMilli())
}

func TestStoreConformance(t *testing.T) {
	o := startServer(t).options()
	c := checker(t, o)
	quotatest.Store(t, c)
	quotatest.TimedStore(t, timed{c})
}
