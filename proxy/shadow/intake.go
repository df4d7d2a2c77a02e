package shadow

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/classify"
	"tempomat/cpuaccount"
	"tempomat/proxy/telemetry"
)

const (
	// intakeShards is over how many locks requests that end at the same time are spread,
	// and mostTaken how many requests each of them keeps.
	intakeShards = 16
	mostTaken    = 256
	// mostTarget is how much is kept of a request's target, in bytes.
	mostTarget = 192
)

// seen is what is kept of a request that is over.
type seen struct {
	who        classify.Result
	came       time.Time
	group      telemetry.Group
	status     int
	used       time.Duration // CPU time
	guess      time.Duration // what it was likely to use, or to be charged with
	asks       time.Duration // what it would use: used, or what was guessed where it was not served
	stay, idle time.Duration
	exact      bool // used is no estimate
	cut        bool // but nobody knows what it would have used, as it was not answered
	beside     int  // others at the backend
	delay      time.Duration
	left       time.Duration // after which its client did; 0: it did not
	eligible   bool
	refused    bool   // in truth
	redirected bool   // in truth
	limit      string // the request limit in shadow that would have refused it
	n          uint8
	target     [mostTarget]byte
}

// newcomers tells whose requests would be redirected if they had to wait.
type newcomers interface {
	Eligible(now time.Time, r *http.Request, who *classify.Result) bool
}

// intake takes in requests that are over.
type intake struct {
	on     atomic.Pointer[Plan] // nil: nothing is in shadow
	lost   atomic.Uint64        // requests that found no room
	shards [intakeShards]intakeShard
}

type intakeShard struct {
	mu  sync.Mutex // guards the following
	all []seen
	_   [64]byte
}

// Note implements telemetry.Recorder.
func (i *intake) Note(_ time.Time, r *telemetry.Record) {
	p := i.on.Load()
	if p == nil || !concerns(r) {
		return
	}
	eligible := p.Newcomers != nil && r.Asked && p.Newcomers.Eligible(r.Arrived, r.Request, r.Who)
	s := &i.shards[rand.Uint32()%intakeShards] //nolint:gosec // any spread will do
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == mostTaken {
		i.lost.Add(1)
		return
	}
	if len(s.all) == cap(s.all) && cap(s.all) == 0 {
		s.all = make([]seen, 0, mostTaken)
	}
	s.all = s.all[:len(s.all)+1]
	s.all[len(s.all)-1].set(r, eligible)
}

// concerns tells whether a request has anything to do with the limiter or its backend.
func concerns(r *telemetry.Record) bool { return r.Asked || r.Limit != "" || r.Who.Exempt }

func (s *seen) set(r *telemetry.Record, eligible bool) {
	s.who, s.came, s.group, s.status = *r.Who, r.Arrived, r.Group, r.Status
	s.used, s.asks, s.stay, s.idle, s.delay = r.CPU, r.CPU, r.Stay, r.Idle, r.Delay()
	s.exact, s.beside = r.Exact, r.Beside
	s.refused, s.redirected = r.Outcome == telemetry.Refused, r.Outcome == telemetry.Redirected
	s.guess, s.cut = r.Guess, r.Exact && r.Outcome != telemetry.Answered
	if r.Stay <= 0 {
		s.asks = r.Guess
	}
	if s.left = r.Left; r.Queued > 0 && r.Outcome == telemetry.ClientGone {
		s.delay = r.Queued
	}
	s.limit, s.eligible = "", eligible
	if r.Limit != "" && !s.refused {
		s.limit = r.Limit
	}
	s.n = uint8(copy(s.target[:], r.Request.RequestURI)) //nolint:gosec // at most mostTarget
}

// kind is what its like is told by.
func (s *seen) kind() cpuaccount.Kind {
	k := cpuaccount.Kind{
		Site: s.who.Site, Shape: s.who.Shape, URL: string(s.target[:s.n]),
		Address: s.who.Address, Known: s.who.Evidence.Proves(),
	}
	if keys := s.who.Keys(); len(keys) > 0 {
		k.Client = keys[0].ID
	}
	return k
}

// take moves what a shard has to a buffer.
func (s *intakeShard) take(to []seen) []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	to = append(to[:0], s.all...)
	clear(s.all) // or the strings would stay alive
	s.all = s.all[:0]
	return to
}
