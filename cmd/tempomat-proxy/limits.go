package main

import (
	"context"
	"net/http"
	"path"
	"strings"
	"time"

	"tempomat/classify"
	"tempomat/config"
	"tempomat/limiter"
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
	local    *redis.Local
	checker  *redis.Checker // nil: no limit is strict, and none can become so without a restart
	totals   *telemetry.Counts
	accounts *limiter.Limiter // for clients that are told their credit
}

func newRequestCounts(c *config.Config, totals *telemetry.Counts) (*requestCounts, error) {
	counts := &requestCounts{local: redis.NewLocal(requestBuckets), totals: totals}
	if len(c.Coordination.Redis.Addresses) == 0 {
		return counts, nil
	}
	o, err := redisOptions(c.Coordination.Redis)
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

// withCredit is the value of headers that tells clients their credit as well.
const withCredit = "draft-credit"

// limits makes the configuration's limits in requests; nil if there are none, and
// nothing to tell of.
func (c *requestCounts) limits(cfg *config.Config) (proxy.RequestLimits, error) {
	if len(cfg.Limits) == 0 && cfg.Headers != withCredit {
		return nil, nil
	}
	l := &requestLimits{counts: c, headers: cfg.Headers}
	for _, given := range cfg.Limits {
		limit := requestLimit{Limit: given, count: c.totals.Limit(given.Name)}
		for kind, factor := range []float64{given.Factors.Anonymous, given.Factors.Session, given.Factors.Trusted} {
			var err error
			if limit.buckets[kind], err = bucketOf(given).Bucket(factor); err != nil {
				return nil, err
			}
		}
		l.limits = append(l.limits, limit)
	}
	return l, nil
}

// bucketOf is a limit as its package takes it.
func bucketOf(l config.Limit) redis.Limit {
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
	b := redis.Limit{
		Name: l.Name, Size: count(l.Size), DripRate: ms(l.DripRate), DripSize: count(l.DripSize),
		Max: count(l.Max), Duration: ms(l.Duration), MinInterval: ms(l.MinInterval),
	}
	if l.Size != 0 {
		b.Type = "bucket"
	}
	return b
}

// requestLimits are the limits in force. It implements proxy.RequestLimits.
type requestLimits struct {
	counts  *requestCounts
	headers string
	limits  []requestLimit
}

// requestLimit is one of them.
type requestLimit struct {
	config.Limit
	count   *telemetry.LimitCount
	buckets [kinds]redis.Bucket
}

// The kinds of clients that limits tell apart.
const (
	anonymous = iota
	session
	trusted
	kinds
)

func kindOf(who *classify.Result) int {
	switch {
	case who.Evidence&classify.Attested != 0:
		return trusted
	case who.Evidence&classify.Cookie != 0:
		return session
	}
	return anonymous
}

// Count implements proxy.RequestLimits.
func (l *requestLimits) Count(ctx context.Context, now time.Time, r *http.Request, who *classify.Result) proxy.Counted {
	kind := kindOf(who)
	where := spellings(r.URL.Path)
	var told standings
	last := false
	for i := range l.limits {
		limit := &l.limits[i]
		actor, ok := limit.actor(&where, who)
		if !ok {
			continue
		}
		limit.count.Match()
		bucket := limit.buckets[kind]
		info, known := l.counts.check(ctx, now, limit, actor, bucket)
		if !known || bucket == (redis.Bucket{}) {
			continue
		}
		if l.headers != "none" {
			told.add(limit.Name, bucket, info)
		}
		last = last || info.Remaining < 1
		if info.Blocked {
			l.tellCredit(now, who, &told)
			return proxy.Counted{Blocked: true, Limit: limit.Name, Wait: info.Reset, Fields: told.fields(l.headers)}
		}
	}
	l.tellCredit(now, who, &told)
	return proxy.Counted{Last: last, Fields: told.fields(l.headers)}
}

// tellCredit adds the client's own account, as it stands before the request.
func (l *requestLimits) tellCredit(now time.Time, who *classify.Result, told *standings) {
	keys := who.Keys()
	if l.headers != withCredit || len(keys) == 0 || l.counts.accounts == nil {
		return
	}
	if b, ok := l.counts.accounts.Balance(now, keys[0]); ok {
		told.any = true
		told.quotas = append(told.quotas, redis.CreditQuota(keys[0].Class, b.Rate, seconds(b.Burst), seconds(b.Level)))
	}
}

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }

// check counts a request. It is false if that could not be done: the request
// passes.
func (c *requestCounts) check(ctx context.Context, now time.Time, l *requestLimit, actor string, b redis.Bucket) (redis.Info, bool) {
	if !l.Strict || c.checker == nil {
		return c.local.Check(now, actor, l.Name, b, 1), true
	}
	info, err := c.checker.Check(ctx, actor, l.Name, b, 1)
	return info, err == nil
}

// actor is whose bucket a request to a path goes to, if the limit is for it.
func (l *requestLimit) actor(where *[2]string, who *classify.Result) (string, bool) {
	if !covers(l.Path, where[0]) && !covers(l.Path, where[1]) {
		return "", false
	}
	k, ok := who.Key(l.Class)
	return k.ID, ok
}

// spellings are what a backend may take a path for, without dot segments: as it is, and
// with each \ a slash, as some have it.
func spellings(where string) (all [2]string) {
	for i := range all {
		if !strings.HasPrefix(where, "/") {
			where = "/" + where
		}
		all[i] = path.Clean(where) // no copy of one that is clean
		where = strings.ReplaceAll(where, `\`, "/")
	}
	return all
}

// covers tells whether a limit's path is that of a request, a clean one: /a/*
// covers /a/ and all below it, and empty is every path. A script is what is below it,
// too (PATH_INFO of RFC 3875, 4.1.5).
func covers(limit, where string) bool {
	prefix, all := strings.CutSuffix(limit, "*")
	switch {
	case limit == "", where == limit:
		return true
	case all:
		return strings.HasPrefix(where+"/", prefix)
	}
	return strings.Contains(path.Base(limit), ".") && strings.HasPrefix(where, limit) && where[len(limit)] == '/'
}

// standings is how the limits stand that a request was held against.
type standings struct {
	worst  redis.Info // the one with the least room
	quotas []redis.Quota
	any    bool
}

func (s *standings) add(name string, b redis.Bucket, i redis.Info) {
	if !s.any || i.Blocked || i.Remaining < s.worst.Remaining {
		s.worst = i
	}
	s.any = true
	s.quotas = append(s.quotas, b.Quota(name, i))
}

// fields tell a client of them. Retry-After is the proxy's to give.
func (s *standings) fields(headers string) http.Header {
	if !s.any {
		return nil
	}
	h := http.Header{}
	if headers == "draft" || headers == withCredit {
		redis.SetDraftFields(h, s.quotas...)
	} else {
		s.worst.SetFields(h)
		delete(h, "Retry-After")
	}
	return h
}
