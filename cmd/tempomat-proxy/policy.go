package main

import (
	"fmt"
	"net/url"
	"runtime"
	"strings"

	"go.uber.org/zap"

	"tempomat/classify"
	"tempomat/classify/newcomer"
	"tempomat/config"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy"
	"tempomat/proxy/lifecycle"
	"tempomat/proxy/spool"
	"tempomat/proxy/telemetry"
)

// cpus is how many CPUs shares are parts of. GOMAXPROCS knows the limits of this
// process's cgroup and its affinity.
func cpus(c *config.Config) float64 {
	if c.CPUCount > 0 {
		return c.CPUCount
	}
	return float64(runtime.GOMAXPROCS(0))
}

// policies makes proxy policies of configurations. It keeps what a reload does
// not change: connections to the backend, the count of what runs there, and the
// bodies that wait.
type policies struct {
	log      *zap.Logger
	cost     costKey
	meter    *cpuaccount.Meter
	backend  config.Backend
	upstream *proxy.Upstream
	standing *classify.Standing
	newcomer *newcomer.Redirector
	counts   *requestCounts
	spools   *spool.Store
	checked  string // directory of the spools
}

type costKey struct {
	source string
	cpus   float64
}

// make returns a policy, or what the configuration's own checks let through
// and should not have.
func (p *policies) make(c *config.Config) (*proxy.Policy, error) {
	classifier, err := newClassifier(c)
	if err != nil {
		return nil, err
	}
	upstream := p.upstream
	if upstream == nil || p.backend != c.Backend {
		if upstream, err = newUpstream(c.Backend, p.log); err != nil {
			return nil, err
		}
	}
	if key := (costKey{c.Cost.Source, cpus(c)}); p.meter == nil || p.cost != key {
		p.meter, p.cost = newMeter(key), key
	}
	if p.upstream != nil && p.upstream != upstream {
		p.upstream.Close()
	}
	p.upstream, p.backend = upstream, c.Backend
	standing, err := p.standingOf(c)
	if err != nil {
		return nil, err
	}
	requests, err := p.counts.limits(c)
	if err != nil {
		return nil, err
	}
	return &proxy.Policy{
		Rules: lifecycle.Rules{
			Classifier: classifier, Standing: standing, Newcomers: p.newcomersOf(c), Meter: p.meter,
		},
		Limits:   limits(c),
		Requests: requests,
		Upstream: upstream,
		Access:   access(c.Log.Access),
		Body:     c.Timeouts.Body,
		Write:    c.Timeouts.Write,
		Upgrade:  c.Timeouts.Upgrade,
		Buffer:   p.bufferOf(c.Buffer),

		Underscores: c.Underscores,
		Upgrades:    c.Upgrades,
		Via:         c.Via,
	}, nil
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

func newMeter(k costKey) *cpuaccount.Meter {
	source := cpuaccount.Corrected
	switch k.source {
	case "wall":
		source = cpuaccount.Wall
	case "header":
		source = cpuaccount.Header
	}
	return cpuaccount.NewMeter(source, k.cpus, 0) // the handler tells it how many workers there are
}

func newClassifier(c *config.Config) (*classify.Classifier, error) {
	cc := classify.Config{TrustedProxies: c.TrustedProxies}
	switch strings.ToLower(c.AddressHeader) {
	case "x-forwarded-for":
		cc.AddressHeader = classify.XForwardedFor
	case "forwarded":
		cc.AddressHeader = classify.Forwarded
	case "x-real-ip":
		cc.AddressHeader = classify.XRealIP
	default:
		cc.AddressHeader = classify.NoHeader
	}
	for _, class := range c.Classes {
		cc.Classes = append(cc.Classes, classOf(class))
	}
	told, _ := toldClasses(c)
	cc.Classes = append(cc.Classes, told...)
	for _, e := range c.Exempt {
		cc.Exempt = append(cc.Exempt, classify.Exemption{Prefix: e.CIDR, Path: e.Path})
	}
	return classify.New(cc)
}

// classOf is how a class groups requests.
func classOf(class config.Class) classify.Class {
	by := classify.Class{Name: class.Name, Header: class.Header}
	switch {
	case class.Header != "":
		by.By = classify.Header
	case class.Path:
		by.By = classify.PathShape
	default:
		by.By = builtIn(class.Name)
	}
	return by
}

func builtIn(name string) classify.By {
	switch name {
	case "slash24":
		return classify.Slash24
	case "slash16":
		return classify.Slash16
	case "userAgent":
		return classify.UserAgent
	}
	return classify.Slash32
}

func limits(c *config.Config) limiter.Policy {
	p := limiter.Policy{
		Shadow:           c.Throttle.Shadow,
		MaxHold:          c.Throttle.MaxHold,
		MaxHeld:          c.Throttle.MaxHeld,
		MaxHeldPerClient: c.Throttle.MaxHeldPerClient,
		Memory:           c.Throttle.Memory,
		Gate: limiter.Gate{
			CPUs: cpus(c), Workers: c.Backend.Workers,
			Heavy: roomOf(c), Strangers: c.Gate.Strangers,
		}.Complete(),
	}
	switch c.Throttle.Mode {
	case "cap":
		p.Mode = limiter.Cap
	case "cooperative":
		p.Mode = limiter.Cooperative
	case "observe":
		p.Mode = limiter.Observe
	default:
		p.Mode = limiter.Fair
	}
	for _, class := range c.Classes {
		p.Classes = append(p.Classes, limiter.ClassInfo{Name: class.Name, Budget: limiter.Budget{
			CPUs: class.Share * cpus(c), Burst: class.Burst, Cap: class.Cap, Shadow: class.Shadow,
			Workers: workersOf(class.Name),
		}})
	}
	if judgesStanding(c) {
		person := p.Classes[0].Budget            // a session is a client of its own
		person.Cap, person.Private = false, true // each sidecar names sessions by a secret of its own
		p.Classes = append(p.Classes, limiter.ClassInfo{Name: sessionClass, Budget: person})
	}
	_, told := toldClasses(c)
	p.Classes = append(p.Classes, told...)
	return p
}

// workersOf is the part of the workers, of those that are not kept for short
// requests, that each key of a class may hold: one client leaves half of them to
// others, a network a quarter, and a large one none in particular.
func workersOf(class string) float64 {
	switch class {
	case "slash32":
		return 0.5
	case "slash24":
		return 0.75
	case "slash16":
		return 1
	}
	return 0
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
