package main

import (
	"context"
	"crypto/rand"
	"net"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"tempomat/classify"
	"tempomat/classify/mmdb"
	"tempomat/classify/newcomer"
	"tempomat/classify/robots"
	"tempomat/classify/standing"
	"tempomat/cmd/internal/policy"
	"tempomat/cmd/tempomat-proxy/internal/sharing"
	"tempomat/config"
	"tempomat/cpuaccount"
	"tempomat/limiter/quota"
	"tempomat/limiter/redis"
	"tempomat/proxy"
	"tempomat/proxy/errorpage"
	"tempomat/proxy/host"
	"tempomat/proxy/lifecycle"
	"tempomat/proxy/proof"
	"tempomat/proxy/spool"
	"tempomat/proxy/telemetry"
	"tempomat/proxy/telemetry/metrics"
)

// policies converts configurations to proxy policies. It keeps the parts that outlive a reload, such as
// connections to the backend, knowledge about clients, counts of requests, and buffered bodies.
type policies struct {
	log       *zap.Logger
	cost      costKey
	meter     *cpuaccount.Meter
	backend   config.Backend
	upstream  *proxy.Upstream
	standing  *standing.Judge
	newcomer  *newcomer.Redirector
	pins      classify.Pins
	counts    *requestCounts
	databases *mmdb.Store
	resolver  resolver
	proofs    proof.Proofs
	spools    *spool.Store
	checked   string // the last spool directory that was checked
}

type costKey struct {
	source string
	cpus   float64
}

// begin makes the parts that outlive reloads. It opens no files or connections.
func (p *policies) begin(counts *requestCounts, log *zap.Logger) {
	p.log, p.counts = log, counts
	var secret [16]byte
	rand.Read(secret[:]) // never fails
	p.standing = standing.New(secret, standing.Config{})
	p.proofs = proof.Proofs{Names: proof.NewNames(p.resolver.system(), log), Publishers: proof.NewPublishers(proof.Transport(), log)}
	p.newcomer = newcomer.New()
	p.databases = mmdb.New(log)
}

// make returns the policy of a configuration, or an error that the checks of the configuration can't detect. If it
// returns an error, it has changed none of the parts that outlive reloads except the address databases, which the
// store has read by then. The function certificates changes the certificates, so make calls it after everything else
// that can fail.
func (p *policies) make(c *config.Config, certificates func(*config.Config) error) (*proxy.Policy, error) {
	pages, err := errorpage.Load(c.ErrorPages.Directory)
	if err != nil {
		return nil, err
	}
	databases, _ := policy.Databases(c, p.databases) // the log names files that can't be used
	classifier, err := policy.Classifier(c, databases)
	if err == nil {
		err = certificates(c)
	}
	if err != nil {
		return nil, err
	}
	p.connect(c.Backend)
	return &proxy.Policy{
		Rules:    p.rulesOf(c, classifier),
		Limits:   policy.Limits(c),
		Requests: p.counts.limits(c),
		Upstream: p.upstream,
		Access:   access(c.Log.Access),
		Body:     c.Timeouts.Body,
		Write:    c.Timeouts.Body,
		Upgrade:  c.Timeouts.Upgrade,
		Buffer:   p.bufferOf(c.Buffer),

		Unavailable: policy.Unavailable(c),

		Pages: pages,

		Underscores: c.Underscores,
	}, nil
}

// rulesOf makes the rules by which clients are classified and requests are charged.
func (p *policies) rulesOf(c *config.Config, classifier *classify.Classifier) (r lifecycle.Rules) {
	r.Classifier = classifier
	r.Standing, r.Robots = p.standingOf(c), policy.Robots(c, p.proofs)
	p.resolver.server.Store(&c.Robots.Resolver)
	var known []robots.Robot
	if r.Robots != nil {
		known = r.Robots.Robots
	}
	p.proofs.SetRobots(known, c.Robots.Refresh == "on")
	if key := (costKey{c.Cost.Source, policy.CPUs(c)}); p.meter == nil || p.cost != key {
		p.meter, p.cost = policy.Meter(key.source, key.cpus), key
	}
	r.Pins, r.Newcomers, r.Meter = &p.pins, p.newcomersOf(c), p.meter
	return r
}

// connect replaces the connections to the backend if its configuration has changed.
func (p *policies) connect(b config.Backend) {
	if p.upstream != nil && p.backend == b {
		return
	}
	if p.upstream != nil {
		p.upstream.Close()
	}
	p.backend = b
	p.upstream = proxy.NewUpstream(proxy.Backend{URL: b.Parsed(), DialTimeout: dialTimeout, Timeout: b.Timeout}, p.log)
}

const (
	// inMemory is the most bytes of a body that are kept in memory. Most bodies are shorter.
	inMemory = 64 << 10
	// perAddress is the fraction of the buffer that one address may use. No address can therefore fill it alone.
	perAddress = 0.25
	// dialTimeout is the longest time that a backend on another machine may take to accept a connection. After that,
	// the backend counts as down.
	dialTimeout = 5 * time.Second
)

// bufferOf sets the buffer's limits. Bodies that are already buffered stay.
func (p *policies) bufferOf(b config.Buffer) proxy.Buffer {
	descriptors, _ := host.Limit() // 0 after an error, which was logged at the start
	l := spool.Limits{Directory: b.Directory, Memory: b.Memory, Files: host.ForClients(descriptors), Address: perAddress}
	if p.spools == nil {
		p.spools = spool.NewStore(l)
	}
	p.spools.SetLimits(l)
	if p.checked != b.Directory {
		p.checked = b.Directory
		if err := spool.Check(b.Directory); err != nil {
			p.log.Warn("buffer.directory can't be used; set it to a directory on a disk", zap.String("directory", b.Directory), zap.Error(err))
		}
	}
	return proxy.Buffer{
		Store: p.spools, RequestMemory: inMemory, Request: b.Request,
		ResponseMemory: inMemory, Response: b.Response,
	}
}

func access(name string) telemetry.Access {
	switch name {
	case "all":
		return telemetry.AccessAll
	case "sampled":
		return telemetry.AccessSampled
	}
	return telemetry.AccessOff
}

// requestBuckets is the number of buckets that are kept for limits that aren't strict.
const requestBuckets = 1 << 16

// requestCounts counts requests for limits. It is made only once, because a reload must not reset the counts.
type requestCounts struct {
	memory  *quota.MemoryStore
	checker *redis.Checker // nil without Redis, so no limit can be strict until a restart
	totals  *telemetry.Counts
}

func newRequestCounts(c *config.Config, totals *telemetry.Counts) (*requestCounts, error) {
	counts := &requestCounts{memory: quota.NewMemoryStore(requestBuckets), totals: totals}
	if len(c.Coordination.Redis.Addresses) == 0 {
		return counts, nil
	}
	o, err := sharing.RedisOptions(c.Coordination)
	if err != nil {
		return nil, err
	}
	counts.checker = redis.NewChecker(o)
	return counts, nil
}

// strict returns the metrics of limits that are counted in Redis, or nil if there are none.
func (c *requestCounts) strict() *metrics.Strict {
	if c.checker == nil {
		return nil
	}
	s := c.checker.State()
	return &metrics.Strict{Checks: s.RoundTrips, Failures: s.Failures}
}

// trouble returns why Redis can't be reached for strict limits. It is empty if it can be, or wasn't needed yet.
func (c *requestCounts) trouble() string {
	if c.checker != nil {
		if s := c.checker.State(); !s.Connected {
			return s.LastError
		}
	}
	return ""
}

func (c *requestCounts) close() {
	if c.checker != nil {
		c.checker.Close()
	}
}

// limits makes the limits of the configuration, or returns nil if there are none.
func (c *requestCounts) limits(cfg *config.Config) proxy.RequestLimits {
	o := quota.Options{Own: c.memory, Headers: headersOf(cfg.Headers)}
	if len(cfg.Limits) == 0 {
		return nil
	}
	if c.checker != nil {
		o.Shared = c.checker
	}
	for _, l := range cfg.Limits {
		o.Rules = append(o.Rules, quota.Rule{
			Name: l.Name, Bucket: bucketOf(l), Path: l.Path, Class: l.Class, Shared: l.Strict, Matched: c.totals.Limit(l.Name).Match,
		})
	}
	return quota.New(o)
}

// headersOf converts the value of the key headers, which was validated with the configuration.
func headersOf(name string) quota.Headers {
	switch name {
	case "ratelimit":
		return quota.Classic
	case "draft", "draft-credit": // the second value is from a release that also sent the client's credit
		return quota.Draft
	}
	return quota.NoHeaders
}

// bucketOf converts a limit. One request drips out of the bucket in each interval of the rate.
func bucketOf(l config.Limit) quota.Bucket {
	return quota.Bucket{Size: int64(l.AtOnce()), DripRate: l.Rate.Interval().Milliseconds(), DripSize: 1}
}

// resolver is the address of the DNS server to use; empty means the system's servers.
type resolver struct{ server atomic.Pointer[string] }

// system returns a net.Resolver that uses this server. It uses Go's own implementation, because lookups by
// the C library can't be cancelled.
func (r *resolver) system() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if s := r.server.Load(); s != nil && *s != "" {
			address = *s
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}

// standingOf returns the judge of clients' standing, configured with c, or nil if there is no gate. The judge is
// made only once, because its knowledge about clients must survive a reload.
func (p *policies) standingOf(c *config.Config) *standing.Judge {
	if !policy.JudgesStanding(c) {
		return nil
	}
	p.standing.Configure(policy.Standing(c))
	return p.standing
}

// newcomersOf returns the redirector of newcomers, or nil if redirects are off or requests never wait.
func (p *policies) newcomersOf(c *config.Config) *newcomer.Redirector {
	if !c.Newcomers.Redirect || !c.Throttle.GateActs() {
		return nil
	}
	return p.newcomer
}
