package main

import (
	"context"
	"time"

	"tempomat/classify/newcomer"
	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/shadow"
	"tempomat/proxy/telemetry"
	"tempomat/proxy/telemetry/metrics"
)

// recorders are told of each request that is over.
func (p *pastHours) recorders() telemetry.Recorders {
	if p == nil {
		return nil
	}
	return telemetry.Recorders{p.shadow}
}

// setShadow says what is in shadow from now on.
func (s *sidecar) setShadow(c *config.Config) {
	if s.history == nil {
		return
	}
	limits, mode := policy.Enforced(c)
	if mode == "" {
		s.history.shadow.SetPlan(nil)
		return
	}
	p := &shadow.Plan{
		Mode: mode, Policy: limits, TableSize: c.Table.Size, CPUs: policy.CPUs(c), Measures: policy.MeasuresUse(c),
		Told:    c.Cost.Source == "header",
		Workers: func() int { n, _ := s.limiter.Workers(); return n }, Known: s.limiter.Known(),
	}
	if c.Newcomers.Redirect && mode == "fair" {
		p.Newcomers = newcomer.New(s.started) // one that redirects nobody
	}
	s.history.shadow.SetPlan(p)
}

const (
	// shadowEvery is how often it is reckoned with requests that are over, and shadowRest how
	// many times as long as that took there is a pause after it.
	shadowEvery = 250 * time.Millisecond
	shadowRest  = 4
)

// runShadow reckons what would have been until the context ends.
func (p *pastHours) runShadow(ctx context.Context) {
	if p == nil {
		return
	}
	timer := time.NewTimer(shadowEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		p.shadow.Play(began)
		timer.Reset(max(shadowEvery, shadowRest*time.Since(began)))
	}
}

// takeAll takes in what requests that are over have left, those in shadow included, which
// waits for none that came before it.
func (s *sidecar) takeAll(now time.Time) {
	s.takeIn(now)
	if s.history != nil {
		s.history.shadow.Flush()
	}
}

// shadowReply is the admin API's function, nil if there is no history.
func (p *pastHours) shadowReply() func(hours int) api.ShadowReply {
	if p == nil {
		return nil
	}
	return p.shadow.Reply
}

// shadowed is what is counted of it.
func (p *pastHours) shadowed() (all metrics.Shadowed) {
	if p == nil {
		return all
	}
	p.shadow.Totals(func(cause, action string, n uint64) {
		all.Requests = append(all.Requests, metrics.ShadowCount{Cause: cause, Action: action, Requests: n})
	})
	all.Lost = p.shadow.Lost()
	return all
}
