package main

import (
	"fmt"
	"net/url"
	"time"

	"go.uber.org/zap"

	"tempomat/classify"
	"tempomat/classify/mmdb"
	"tempomat/classify/newcomer"
	"tempomat/classify/standing"
	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/cpuaccount"
	"tempomat/proxy"
	"tempomat/proxy/lifecycle"
	"tempomat/proxy/rdns"
	"tempomat/proxy/spool"
	"tempomat/proxy/telemetry"
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
	hosts     *rdns.Names
	spools    *spool.Store
	checked   string // directory of the spools
}

type costKey struct {
	source string
	cpus   float64
}

// begin makes what a reload does not change; it opens nothing.
func (p *policies) begin(now time.Time, counts *requestCounts, log *zap.Logger) (err error) {
	p.log, p.counts = log, counts
	if p.standing, err = newStanding(); err != nil {
		return err
	}
	p.hosts = rdns.New(p.resolver.system())
	p.hosts.OnSilence(p.tellSilence)
	p.newcomer = newcomer.New(now)
	p.databases = mmdb.New(log)
	return nil
}

// make returns a policy, or what the configuration's own checks let through
// and should not have. Connections to the backend change last, as the policy in
// force needs them if anything else fails.
func (p *policies) make(c *config.Config) (*proxy.Policy, error) {
	pages, err := readPages(c)
	if err != nil {
		return nil, err
	}
	requests, err := p.counts.limits(c)
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
		Requests: requests,
		Upstream: p.upstream,
		Access:   access(c.Log.Access),
		Body:     c.Timeouts.Body,
		Write:    c.Timeouts.Write,
		Upgrade:  c.Timeouts.Upgrade,
		Buffer:   p.bufferOf(c.Buffer),

		Unavailable: policy.Unavailable(c),

		Pages:     pages.errors,
		RobotsTxt: pages.robots,

		Hops: proxy.Hops{Underscores: c.Underscores, Upgrades: c.Upgrades, Via: c.Via},
	}, nil
}

// rulesOf says who is who, and what their requests cost.
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
	robots, domains, err := policy.Robots(c, p.hosts)
	if err != nil {
		return r, err
	}
	if p.resolver.ask(c.Robots.Resolver) {
		p.hosts.AskAgain()
	}
	p.hosts.SetDomains(domains)
	if key := (costKey{c.Cost.Source, policy.CPUs(c)}); p.meter == nil || p.cost != key {
		p.meter, p.cost = policy.Meter(key.source, key.cpus), key
	}
	r.Robots, r.Pins, r.Newcomers, r.Meter = robots, &p.pins, p.newcomersOf(c), p.meter
	return r, nil
}

// tellSilence logs that nobody answers for robots' addresses, or that somebody does again.
func (p *policies) tellSilence(err error) {
	if err != nil {
		p.log.Warn("nobody answers for the names of robots' addresses: none is verified by them meanwhile, and all else is as usual", zap.Error(err))
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

// keepDatabases goes on with the databases of the configuration that stays in force.
func (p *policies) keepDatabases(c *config.Config) {
	_, _ = policy.Databases(c, p.databases) // it could have them before
}

// bufferOf puts limits in force and keeps what waits already.
func (p *policies) bufferOf(b config.Buffer) proxy.Buffer {
	l := spool.Limits{Directory: b.Directory, Memory: b.Memory, Disk: b.Disk, Address: b.PerAddress}
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
		Store: p.spools, RequestMemory: b.RequestMemory, Request: b.Request,
		ResponseMemory: b.ResponseMemory, Response: b.Response,
	}
}

func newUpstream(b config.Backend, log *zap.Logger) (*proxy.Upstream, error) {
	u, err := url.Parse(b.URL)
	if err != nil {
		return nil, fmt.Errorf("backend: %w", err)
	}
	return proxy.NewUpstream(proxy.Backend{URL: u, DialTimeout: b.DialTimeout, Timeout: b.Timeout}, log), nil
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
