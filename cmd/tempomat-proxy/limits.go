package main

import (
	"time"

	"tempomat/cmd/tempomat-proxy/internal/sharing"
	"tempomat/config"
	"tempomat/limiter/quota"
	"tempomat/limiter/redis"
	"tempomat/proxy"
	"tempomat/proxy/telemetry"
	"tempomat/proxy/telemetry/metrics"
)

// requestBuckets is how many buckets of limits that are not strict are remembered.
const requestBuckets = 1 << 16

// requestCounts is where requests are counted. It is made once: a reload must not
// forget them.
type requestCounts struct {
	memory   *quota.MemoryStore
	checker  *redis.Checker // nil: no limit is strict, and none can become so without a restart
	totals   *telemetry.Counts
	accounts quota.Accounts // for clients that are told their credit
}

func newRequestCounts(c *config.Config, totals *telemetry.Counts, accounts quota.Accounts) (*requestCounts, error) {
	counts := &requestCounts{memory: quota.NewMemoryStore(requestBuckets), totals: totals, accounts: accounts}
	if len(c.Coordination.Redis.Addresses) == 0 {
		return counts, nil
	}
	o, err := sharing.RedisOptions(c.Coordination.Redis)
	if err != nil {
		return nil, err
	}
	counts.checker, err = redis.NewChecker(o)
	return counts, err
}

// strict tells how counting in Redis fares; nil: nothing is counted there.
func (c *requestCounts) strict() *metrics.Strict {
	if c.checker == nil {
		return nil
	}
	s := c.checker.State()
	return &metrics.Strict{Checks: s.RoundTrips, Failures: s.Failures}
}

func (c *requestCounts) close() {
	if c.checker != nil {
		c.checker.Close()
	}
}

// limits makes the configuration's limits in requests; nil if there are none, and
// nothing to tell of.
func (c *requestCounts) limits(cfg *config.Config) (proxy.RequestLimits, error) {
	o := quota.Options{Own: c.memory, Accounts: c.accounts, Headers: headersOf(cfg.Headers)}
	if len(cfg.Limits) == 0 && o.Headers != quota.WithCredit {
		return nil, nil
	}
	if c.checker != nil {
		o.Shared = c.checker
	}
	for _, l := range cfg.Limits {
		o.Rules = append(o.Rules, quota.Rule{
			Limit: limitOf(l), Path: l.Path, Class: l.Class, Shared: l.Strict, Matched: c.totals.Limit(l.Name).Match,
			Factors: quota.Factors{
				quota.Anonymous: l.Factors.Anonymous, quota.Session: l.Factors.Session, quota.Trusted: l.Factors.Trusted,
			},
		})
	}
	return quota.New(o)
}

// headersOf is a value of headers, which the configuration has checked.
func headersOf(name string) quota.Headers {
	switch name {
	case "ratelimit":
		return quota.Classic
	case "draft":
		return quota.Draft
	case "draft-credit":
		return quota.WithCredit
	}
	return quota.NoHeaders
}

// limitOf is a limit as its package takes it.
func limitOf(l config.Limit) quota.Limit {
	count := func(n int) *float64 {
		if n == 0 {
			return nil
		}
		return new(float64(n))
	}
	ms := func(d time.Duration) *float64 {
		if d == 0 {
			return nil
		}
		return new(float64(d) / float64(time.Millisecond))
	}
	q := quota.Limit{
		Name: l.Name, Size: count(l.Size), DripRate: ms(l.DripRate), DripSize: count(l.DripSize),
		Max: count(l.Max), Duration: ms(l.Duration), MinInterval: ms(l.MinInterval),
	}
	if l.Size != 0 {
		q.Type = "bucket"
	}
	return q
}
