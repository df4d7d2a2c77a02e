package sim

import (
	"time"

	"tempomat/classify"
	"tempomat/classify/newcomer"
	"tempomat/classify/standing"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy/lifecycle"
)

// usualWorkers is how many a backend has at least that is no php-fpm.
const usualWorkers = 16

// TableSize is how many keys the limiter remembers.
const TableSize = 65536

// What follows is what tempomat-proxy makes of a configuration that says nothing,
// which a test of its own holds against this.

// Classes are how requests are grouped.
func Classes() []classify.Class {
	return []classify.Class{
		{Name: "slash32", By: classify.Slash32}, {Name: "slash24", By: classify.Slash24},
		{Name: "slash16", By: classify.Slash16}, {Name: "userAgent", By: classify.UserAgent},
	}
}

// Standing is how clients are judged.
func Standing() standing.Config {
	return standing.Config{Attested: 4, ClientClass: "slash32", SessionClass: "session"}
}

// Robots is how robots are told that say who they are.
func Robots() classify.RobotsConfig {
	return classify.RobotsConfig{
		Class: "robot", Replaces: []string{"slash32", "slash24", "slash16", "userAgent"},
		Crawlers: classify.KnownCrawlers(),
	}
}

// Policy is what the limiter is told, for so many CPUs and workers; 0 workers: it
// is to learn their number.
func Policy(mode limiter.Mode, cpus float64, workers int) limiter.Policy {
	budget := func(share, workers float64, burst time.Duration) limiter.Budget {
		return limiter.Budget{CPUs: share * cpus, Workers: workers, Burst: burst}
	}
	session := budget(0.10, 0.5, 30*time.Second)
	session.LocalOnly = true
	return limiter.Policy{
		Mode: mode, MaxHold: 30 * time.Second, MaxHeld: 1024,
		Memory: limiter.DefaultMemory, OtherSites: 1,
		Gate: limiter.Gate{CPUs: cpus, Workers: workers}.Complete(),
		Classes: []limiter.ClassInfo{
			{Name: "slash32", Budget: budget(0.10, 0.5, 30*time.Second)},
			{Name: "slash24", Budget: budget(0.25, 0.75, 30*time.Second)},
			{Name: "slash16", Budget: budget(0.50, 1, 30*time.Second)},
			{Name: "userAgent", Budget: budget(0.10, 0, 120*time.Second)},
			{Name: "session", Budget: session},
			{Name: "robot", Budget: budget(0.10, 0.25, 30*time.Second)},
		},
	}
}

// policyOf is what the limiter is told in a scenario.
func policyOf(mode limiter.Mode, cpus float64, s Scenario) limiter.Policy {
	p := Policy(mode, cpus, s.configured())
	if s.Systems != nil {
		p.Classes = append(p.Classes, limiter.ClassInfo{Name: "asn", Budget: limiter.Budget{CPUs: 0.25 * cpus, Burst: 30 * time.Second}})
	}
	p.Sites = s.Sites
	if s.change != nil {
		s.change(&p)
	}
	return p
}

// rulesOf is what the proxy goes by in a scenario.
func rulesOf(now time.Time, s Scenario) (rules lifecycle.Rules, err error) {
	c := classify.Config{Classes: Classes(), AddressHeader: classify.NoHeader}
	if s.Systems != nil {
		c.Classes = append(c.Classes, classify.Class{Name: "asn", By: "asn"})
		c.Databases = map[string]classify.Database{"asn": s.Systems}
	}
	for _, x := range s.Sites {
		c.Sites = append(c.Sites, classify.Site{Name: x.Name, Hosts: []string{x.Name + ".test"}})
	}
	rules.Classifier, err = classify.New(c)
	if err != nil {
		return rules, err
	}
	robots := Robots()
	robots.Crawlers = append(robots.Crawlers, s.Verified...)
	rules.Robots, err = classify.NewRobots(robots)
	if err != nil {
		return rules, err
	}
	rules.Standing, err = standing.New([16]byte{1}, Standing())
	if err != nil {
		return rules, err
	}
	source := cpuaccount.Corrected
	if s.Steps || s.Told {
		source = cpuaccount.Process // what a worker costs that has stepped down, time does not tell
	}
	rules.Meter = cpuaccount.NewMeter(source, s.CPUs, 0)
	if s.Redirect {
		rules.Newcomers = newcomer.New(now)
	}
	return rules, nil
}
