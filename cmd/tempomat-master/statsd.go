package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/limiter/smockron/master"
)

// statsdEvery is how often statistics are sent: counts of all domains together
// since the last time, under the first master's names.
const statsdEvery = time.Second

// statsd sends statistics by UDP, as lines of name:value|type.
type statsd struct {
	state func() master.State
	log   *zap.Logger

	to      atomic.Pointer[config.Statsd] // where they go
	failing bool                          // for run alone
}

func (s *statsd) run(ctx context.Context) {
	ticks := time.NewTicker(statsdEvery)
	defer ticks.Stop()
	var before master.DomainCounts
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		now := sum(s.state())
		if to := s.to.Load(); to.Host != "" {
			s.tell(s.post(ctx, to, statsdLines(to, before, now)))
		}
		before = now
	}
}

// tell logs that statistics can not be sent, once, and that they can again.
func (s *statsd) tell(err error) {
	if (err != nil) == s.failing {
		return
	}
	if s.failing = err != nil; s.failing {
		s.log.Warn("can't send statistics to statsd", zap.Error(err))
	} else {
		s.log.Info("statsd gets statistics again")
	}
}

func (s *statsd) post(ctx context.Context, to *config.Statsd, lines string) error {
	if lines == "" {
		return nil
	}
	var dialer net.Dialer
	ctx, cancel := context.WithTimeout(ctx, statsdEvery)
	defer cancel()
	c, err := dialer.DialContext(ctx, "udp", net.JoinHostPort(to.Host, fmt.Sprint(to.Port)))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // nothing is kept back
	_, err = c.Write([]byte(lines))
	return err
}

// sum adds up the domains.
func sum(m master.State) (all master.DomainCounts) {
	for _, d := range m.Domains {
		all.Accepted += d.Counts.Accepted
		all.Delayed += d.Counts.Delayed
		all.Rejected += d.Counts.Rejected
		all.Throttled += d.Counts.Throttled
		all.Delay += d.Counts.Delay
	}
	return all
}

// statsdLines are what changed. The time that requests were delayed is told as the
// mean of them, with the sample rate that makes it count as often.
func statsdLines(to *config.Statsd, before, now master.DomainCounts) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, to.Prefix+name+to.Suffix+":"+format+"\n", args...)
	}
	count := func(name string, n uint64) {
		if n > 0 && n < 1<<63 { // less than before: a domain is gone
			line(name, "%d|c", n)
		}
	}
	accepted, delayed := now.Accepted-before.Accepted, now.Delayed-before.Delayed
	count("request.total", accepted+delayed)
	count("request.status.ACCEPTED", accepted)
	count("request.status.DELAYED", delayed)
	count("request.throttled", now.Throttled-before.Throttled)
	if delayed > 0 && delayed < 1<<63 {
		line("request.delayed_by", "%.0f|ms|@%.6f", 1000*(now.Delay-before.Delay)/float64(delayed), 1/float64(delayed))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
