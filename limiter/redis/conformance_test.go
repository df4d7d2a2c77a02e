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

// fleet is a set of instances that share through one Redis, which hangs while they are cut off.
type fleet struct {
	*server
	policy limiter.Policy
}

func (f *fleet) Join(testing.TB) limiter.Sharer {
	return NewSharer(Options{Address: f.Address}, f.policy)
}
func (f *fleet) Cut()  { f.Pause() }
func (f *fleet) Heal() { f.Resume() }

func TestConformance(t *testing.T) {
	t.Parallel()
	sim.Sharers(t, func(t *testing.T, p limiter.Policy) sim.Fleet {
		return &fleet{startServer(t), p}
	})
}

// timed is a Checker that uses the time passed to Check instead of the server's clock.
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
