package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
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

// policies makes proxy policies of configurations. It keeps what a reload does
// not change: connections to the backend, the count of what runs there, and the
// bodies that wait.
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
	checked   string // directory of the spools
}

type costKey struct {
	source string
	cpus   float64
}

// begin makes what a reload does not change; it opens nothing.
func (p *policies) begin(counts *requestCounts, log *zap.Logger) (err error) {
	p.log, p.counts = log, counts
	if p.standing, err = newStanding(); err != nil {
		return err
	}
	p.proofs = proof.Proofs{Names: proof.NewNames(p.resolver.system()), Publishers: proof.NewPublishers(proof.Transport(), log)}
	p.proofs.OnSilence(p.tellSilence)
	p.newcomer = newcomer.New()
	p.databases = mmdb.New(log)
	return nil
}

// make returns a policy, or an error that the configuration's own checks missed. Connections to
// the backend change last, because the policy in force needs them if anything else fails.
func (p *policies) make(c *config.Config) (*proxy.Policy, error) {
	pages, err := readPages(c)
	if err != nil {
		return nil, err
	}
	rules, err := p.rulesOf(c)
	if err != nil {
		return nil, err
	}
	if p.upstream, err = p.upstreamOf(c.Backend); err != nil {
		return nil, err
	}
	return &proxy.Policy{
		Rules:    rules,
		Limits:   policy.Limits(c),
		Requests: p.counts.limits(c),
		Upstream: p.upstream,
		Access:   access(c.Log.Access),
		Body:     c.Timeouts.Body,
		Write:    c.Timeouts.Body,
		Upgrade:  c.Timeouts.Upgrade,
		Buffer:   p.bufferOf(c.Buffer),

		Unavailable: policy.Unavailable(c),

		Pages:     pages.errors,
		RobotsTxt: pages.robots,

		Underscores: c.Underscores,
	}, nil
}

// rulesOf makes the rules by which clients are classified and their requests charged.
func (p *policies) rulesOf(c *config.Config) (r lifecycle.Rules, err error) {
	databases, err := policy.Databases(c, p.databases)
	if err != nil {
		return r, err
	}
	if r.Classifier, err = policy.Classifier(c, databases); err != nil {
		return r, err
	}
	if r.Standing, err = p.standingOf(c); err != nil {
		return r, err
	}
	if r.Robots, err = policy.Robots(c, p.proofs); err != nil {
		return r, err
	}
	if p.resolver.ask(c.Robots.Resolver) {
		p.proofs.AskAgain()
	}
	var known []robots.Robot
	if r.Robots != nil {
		known = r.Robots.Robots
	}
	p.proofs.SetRobots(known, c.Robots.Refresh == "on")
	if key := (costKey{c.Cost.Source, policy.CPUs(c)}); p.meter == nil || p.cost != key {
		p.meter, p.cost = policy.Meter(key.source, key.cpus), key
	}
	r.Pins, r.Newcomers, r.Meter = &p.pins, p.newcomersOf(c), p.meter
	return r, nil
}

// tellSilence logs that no DNS server answers for robots' addresses, or that one answers again.
func (p *policies) tellSilence(err error) {
	if err != nil {
		p.log.Warn("can't verify robots by DNS: the resolver doesn't answer. They share the account of unverified robots until it does", zap.Error(err))
		return
	}
	p.log.Info("the names of robots' addresses are answered again")
}

// upstreamOf returns the connections that there are, or others if the backend is another
// one.
func (p *policies) upstreamOf(b config.Backend) (*proxy.Upstream, error) {
	if p.upstream != nil && p.backend == b {
		return p.upstream, nil
	}
	upstream, err := newUpstream(b, p.log)
	if err != nil {
		return p.upstream, err
	}
	if p.upstream != nil {
		p.upstream.Close()
	}
	p.backend = b
	return upstream, nil
}

// keepDatabases keeps the databases of the configuration that stays in force.
func (p *policies) keepDatabases(c *config.Config) {
	_, _ = policy.Databases(c, p.databases) // it could have them before
}

const (
	// inMemory is how much of a body is in memory, in bytes: as much as most are long.
	inMemory = 64 << 10
	// perAddress is the part of memory and disk that one address may use: several have room
	// next to the one that takes the most.
	perAddress = 0.25
	// dialTimeout is how long another machine may take to accept a connection, and a backend
	// there that is away is told after it.
	dialTimeout = 5 * time.Second
)

// bufferOf puts limits in force and keeps what waits already.
func (p *policies) bufferOf(b config.Buffer) proxy.Buffer {
	descriptors, _ := host.Limit() // unknown: one file, and the start has said why
	l := spool.Limits{Directory: b.Directory, Memory: b.Memory, Files: host.ForClients(descriptors), Address: perAddress}
	if p.spools == nil {
		p.spools = spool.NewStore(l)
	}
	p.spools.SetLimits(l)
	if p.checked != b.Directory {
		p.checked = b.Directory
		if err := spool.Check(b.Directory); err != nil {
			p.log.Warn("buffer.directory is unfit; name a directory on a disk", zap.String("directory", b.Directory), zap.Error(err))
		}
	}
	return proxy.Buffer{
		Store: p.spools, RequestMemory: inMemory, Request: b.Request,
		ResponseMemory: inMemory, Response: b.Response,
	}
}

func newUpstream(b config.Backend, log *zap.Logger) (*proxy.Upstream, error) {
	u, err := url.Parse(b.URL)
	if err != nil {
		return nil, fmt.Errorf("backend: %w", err)
	}
	return proxy.NewUpstream(proxy.Backend{URL: u, DialTimeout: dialTimeout, Timeout: b.Timeout}, log), nil
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

// longestRobots is how long a robots.txt may be, in bytes: as much of it as robots have to
// read (RFC 9309, 2.5).
const longestRobots = 500 << 10

// pages are what the proxy itself answers with.
type pages struct {
	errors *errorpage.Set
	robots []byte // nil: the backend's
}

// readPages reads the files that a configuration names. The error tells of all of them.
func readPages(c *config.Config) (p pages, err error) {
	p.errors, err = errorpage.Load(errorpage.Options{Directory: c.ErrorPages.Directory, Languages: c.ErrorPages.Languages})
	var other error
	if c.RobotsTxt != "" {
		p.robots, other = readRobots(c.RobotsTxt)
	}
	return p, errors.Join(err, other)
}

// readRobots reads a robots.txt; it is not nil if there is no error.
func readRobots(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("robotsTxt: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longestRobots+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("robotsTxt: %w", err)
	case len(text) > longestRobots:
		return nil, fmt.Errorf("robotsTxt: %s has more than %d bytes, which is as much as robots read", name, longestRobots)
	}
	return text, nil
}

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
	o, err := sharing.RedisOptions(c.Coordination)
	if err != nil {
		return nil, err
	}
	counts.checker = redis.NewChecker(o)
	return counts, nil
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
func (c *requestCounts) limits(cfg *config.Config) proxy.RequestLimits {
	o := quota.Options{Own: c.memory, Accounts: c.accounts, Headers: headersOf(cfg.Headers)}
	if len(cfg.Limits) == 0 && o.Headers != quota.WithCredit {
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

// bucketOf is a limit as its package takes it: each interval of the rate one request is forgotten.
func bucketOf(l config.Limit) quota.Bucket {
	return quota.Bucket{Size: int64(l.AtOnce()), DripRate: l.Rate.Interval().Milliseconds(), DripSize: 1}
}

// resolver is whom DNS is asked of: a server, or those that the system has.
type resolver struct{ server atomic.Pointer[string] }

// ask has a server be asked from now on; empty: those that the system has. It tells whether
// that is another one than before.
func (r *resolver) ask(server string) (another bool) {
	before := r.server.Swap(&server)
	return before != nil && *before != server
}

// system is the resolver that asks it. It does without C, whose look-ups do not end when
// no request waits for them any more.
func (r *resolver) system() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if s := r.server.Load(); s != nil && *s != "" {
			address = *s
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}

// standing is what judges it, with the configuration's values; nil if that is
// off. It is made once, as a reload must not forget whom it has seen.
func (p *policies) standingOf(c *config.Config) (*standing.Judge, error) {
	if !policy.JudgesStanding(c) {
		return nil, nil
	}
	return p.standing, p.standing.Configure(policy.Standing(c))
}

// newcomersOf is what redirects newcomers; nil if that is off, or no request waits.
func (p *policies) newcomersOf(c *config.Config) *newcomer.Redirector {
	if !c.Newcomers.Redirect || !c.Throttle.GateActs() {
		return nil
	}
	return p.newcomer
}

// newStanding makes a Judge that has seen no clients.
func newStanding() (*standing.Judge, error) {
	var secret [16]byte
	rand.Read(secret[:]) // it never fails
	return standing.New(secret, standing.Config{})
}
