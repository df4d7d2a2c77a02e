package limitertest

import (
	"time"

	"tempomat/classify"
	"tempomat/classify/newcomer"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy/lifecycle"
)

// usualWorkers is how many a backend has at least that is no php-fpm.
const usualWorkers = 16

func classes() []classify.Class {
	return []classify.Class{
		{Name: "slash32", By: classify.Slash32}, {Name: "slash24", By: classify.Slash24},
		{Name: "slash16", By: classify.Slash16}, {Name: "userAgent", By: classify.UserAgent},
	}
}

// Policy is the usual one, for so many CPUs and workers.
func Policy(mode limiter.Mode, cpus float64, workers int) limiter.Policy {
	p := limiter.Policy{
		Mode: mode, MaxHold: 30 * time.Second, MaxHeld: 512, MaxHeldPerClient: 64,
		Gate: limiter.Gate{CPUs: cpus, Workers: workers},
	}
	for _, c := range []struct {
		name           string
		share, workers float64
	}{{"slash32", .1, .5}, {"slash24", .25, .75}, {"slash16", .5, 1}, {"userAgent", .1, 0}, {"session", .1, .5}} {
		p.Classes = append(p.Classes, limiter.ClassInfo{Name: c.name, Budget: limiter.Budget{
			Workers: c.workers,
			CPUs:    c.share * cpus, Burst: time.Duration(30 * c.share * cpus * float64(time.Second)),
		}})
	}
	return p
}

// rulesOf is what the proxy goes by in a scenario.
func rulesOf(now time.Time, s Scenario) (rules lifecycle.Rules, err error) {
	rules.Classifier, err = classify.New(classify.Config{Classes: classes(), AddressHeader: classify.NoHeader})
	if err != nil {
		return rules, err
	}
	rules.Standing, err = classify.NewStanding([16]byte{1}, classify.StandingConfig{
		Attested: 4, ClientClass: "slash32", SessionClass: "session",
	})
	if err != nil {
		return rules, err
	}
	rules.Meter = cpuaccount.NewMeter(cpuaccount.Corrected, s.CPUs, 0)
	if s.Redirect {
		rules.Newcomers = newcomer.New(now)
	}
	return rules, nil
}
