// Package sharing makes the Sharer that the configuration selects, runs it, and reports its state.
//
// To add a way of sharing, write a package next to limiter/redis, a constructor in ways.go, a case in New, and a
// section for its keys in config/coordination.go. A test checks that New and the configuration agree.
package sharing

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"tempomat/classify/newcomer"
	"tempomat/classify/standing"
	"tempomat/config"
	"tempomat/limiter"
	"tempomat/limiter/gossip"
	"tempomat/limiter/known"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry/metrics"
)

// Sharing is this instance's part in a fleet. All methods may be called at any time, but Run may be called only once.
type Sharing struct {
	kind     string
	sharer   limiter.Sharer // nil if the instance works alone
	log      *zap.Logger
	file     string          // the file with the secret; empty: none
	exchange *known.Exchange // shares data about known clients; does nothing without a secret
	self     func(now time.Time) api.Instance
	fleet    fleet

	mu      sync.Mutex // guards the fields below
	trouble error      // why nothing is shared although the configuration asks for it
	secret  *Secret    // nil if there is none
	trusted Trusted
	derived struct {
		signing, other string
		day            int64 // day for which the tickets' keys were derived
	}
}

// Trusted are the parts of the program that use keys derived from the secret.
type Trusted struct {
	Known    *limiter.Known
	Standing *standing.Judge
	Passes   *newcomer.Redirector
	Tickets  func(keys [][32]byte) // sets the keys of TLS tickets; the first one encrypts
	// Self describes this instance to the others.
	Self func(now time.Time) api.Instance
}

// The purposes for which keys are derived from the secret.
const packets, passes, encryption = "packets", "passes", "gossip"

// New makes a Sharing according to the configuration. It opens only files with keys and secrets.
func New(c *config.Config, log *zap.Logger) (*Sharing, error) {
	s := &Sharing{kind: c.Coordination.Kind, log: log, exchange: known.NewExchange(), fleet: fleet{all: make(map[uint32]*member)}}
	s.exchange.Meet(s.fleet.meet)
	var err error
	if c.Coordination.Secret != "" {
		if s.secret, err = readSecret(c.Coordination.Secret); err != nil {
			s.trouble = err
			return s, nil //nolint:nilerr // Run logs it
		}
		s.file = c.Coordination.Secret
	}
	if s.kind == config.SharesNothing {
		return s, nil
	}
	if s.file == "" {
		log.Info("debts are shared, but known clients aren't, because coordination.secret is not set. Make a secret with: tempomat-proxy secret new")
	}
	switch s.kind {
	case "smockron":
		s.sharer = newSmockron(c, s.secret)
	case "redis":
		s.sharer, err = newRedis(c)
	case "gossip":
		s.sharer, err = newGossip(c, s.secret, log)
	}
	return s, err
}

// Sharer returns the Sharer that gets the limiter's charges, or nil if nothing is shared.
func (s *Sharing) Sharer() limiter.Sharer { return s.sharer }

// Trust passes keys that are derived from the secret to the given parts, if there is a secret. Call it before the
// parts load their saved state, and before the first request.
func (s *Sharing) Trust(now time.Time, t Trusted) {
	if s.file == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trusted, s.self = t, t.Self
	t.Known.Share(s.exchange, s.secret.hashKey("clients"))
	t.Standing.Share(s.exchange, s.secret.hashKey("visitors"))
	s.exchange.Ask(now)
	s.deriveLocked(now)
}

// deriveLocked derives the keys that are valid now, and sets them if they have changed.
func (s *Sharing) deriveLocked(now time.Time) {
	signing, other := s.secret.at(now)
	before := s.derived
	s.derived.signing, s.derived.other, s.derived.day = string(signing), string(other), dayOf(now)
	if s.derived == before {
		return
	}
	s.exchange.SetKeys(derive(signing, packets), derive(other, packets))
	s.trusted.Passes.SetKeys(derive(signing, passes), derive(other, passes))
	s.trusted.Tickets(s.secret.tickets(now))
	if g, ok := s.sharer.(*gossip.Sharer); ok {
		if err := g.SetKeys(gossipKeys(signing, other)); err != nil {
			s.log.Error("can't change the encryption keys; the previous ones stay in use", zap.Error(err))
		}
	}
}

// Run shares accounts and known clients until the context ends. If sharing fails, the instance works alone.
func (s *Sharing) Run(ctx context.Context, in limiter.Sink) {
	if s.trouble != nil {
		s.alone(s.trouble)
	}
	if s.sharer == nil && s.file == "" {
		return
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	watching.Go(func() { s.watch(ctx) })
	if s.sharer == nil {
		<-ctx.Done()
		return
	}
	watching.Go(func() { s.tell(ctx) })
	if s.file != "" {
		watching.Go(func() { s.introduce(ctx) })
	}
	if err := s.sharer.Run(ctx, in); err != nil && ctx.Err() == nil {
		s.mu.Lock()
		s.trouble = err
		s.mu.Unlock()
		s.alone(err)
	}
}

// alone logs why nothing is shared.
func (s *Sharing) alone(why error) {
	s.log.Error("accounts are not shared; this instance works alone", zap.String("kind", s.kind), zap.Error(why))
}

// tell reports to the other instances which clients are known here, until the context ends.
func (s *Sharing) tell(ctx context.Context) {
	ticks := time.NewTicker(known.PackEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			for _, p := range s.exchange.Pack(now) {
				s.sharer.Carry(p) // if there is no room, the packet is sent again later
			}
		}
	}
}

// foreign is the pause between two log lines about an instance with a different secret.
const foreign = time.Minute

// hasForeign reports whether a message signed with a different secret arrived recently.
func (s *Sharing) hasForeign(now time.Time) bool {
	last := s.exchange.State().OtherAt
	if g, ok := s.sharer.(*gossip.Sharer); ok && g.ForeignAt().After(last) {
		last = g.ForeignAt()
	}
	return now.Sub(last) < foreign
}

// watch logs when a service that the Sharer needs becomes available or unavailable, and when another secret is seen.
// It also derives the keys again when they are due.
func (s *Sharing) watch(ctx context.Context) {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	up, peers := make(map[string]bool), 0
	var warned time.Time
	for {
		var now time.Time
		select {
		case <-ctx.Done():
			return
		case now = <-ticks.C:
		}
		if s.file != "" {
			s.mu.Lock()
			s.deriveLocked(now)
			s.mu.Unlock()
		}
		if s.hasForeign(now) && now.Sub(warned) >= foreign {
			warned = now
			x := s.exchange.State()
			s.log.Warn("another instance has a different coordination.secret, so neither can read the other's messages. Copy one file to all instances, and reload them",
				zap.String("fingerprint", x.Secret), zap.String("theirs", x.Other))
		}
		if s.sharer == nil {
			continue
		}
		status := s.sharer.Status()
		if status.Peers > peers { // a new peer may know clients that this instance doesn't
			s.exchange.Ask(now)
		}
		peers = status.Peers
		for name, there := range status.Up {
			was, seen := up[name]
			up[name] = there
			switch {
			case there && !was:
				s.exchange.Ask(now)
				s.log.Info("sharing accounts", zap.String("with", name))
			case !there && (was || !seen):
				s.log.Warn("can't share accounts; this instance uses only its own. tempomat-doctor status shows why", zap.String("with", name))
			}
		}
	}
}

// Reload applies a new policy, and reads the secret's file again.
func (s *Sharing) Reload(p limiter.Policy) {
	if err := s.reread(time.Now()); err != nil {
		s.log.Error("can't use the new secret; the previous one stays in use", zap.Error(err))
	}
	if r, ok := s.sharer.(interface{ SetPolicy(p limiter.Policy) }); ok {
		r.SetPolicy(p)
	}
}

// reread reads the secret's file again and derives the keys from it.
func (s *Sharing) reread(now time.Time) error {
	if s.file == "" {
		return nil
	}
	secret, err := readSecret(s.file)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !bytes.Equal(secret.first, s.secret.first) {
		return fmt.Errorf("coordination.secret: %s: the new secret isn't a rotation of the previous one, because the file's last line differs. Restart tempomat-proxy to use it", s.file)
	}
	s.secret = secret
	s.deriveLocked(now)
	return nil
}

// Reply is the answer of the admin API.
func (s *Sharing) Reply() api.ShareReply {
	status, trouble := s.status()
	r := api.ShareReply{Kind: s.kind, State: status.Detail}
	if s.file != "" {
		r.Known, r.Instances = s.exchange.State(), s.fleet.others(time.Now(), false)
	}
	if trouble != nil {
		r.Trouble = trouble.Error()
	}
	return r
}

// Fingerprint returns the fingerprint of the secret that signs, or an empty text if there is none.
func (s *Sharing) Fingerprint() string { return s.exchange.State().Secret }

// Numbers returns the state for the metrics.
func (s *Sharing) Numbers() metrics.Sharing {
	status, trouble := s.status()
	x := s.exchange.State()
	status.Unsound += x.Forged + x.Foreign + x.Stale
	if trouble != nil {
		status.Up = map[string]bool{s.kind: false}
	}
	return metrics.Sharing{Kind: s.kind, SharingStatus: status, OtherSecret: s.hasForeign(time.Now()), Drift: len(s.Drift())}
}

// status returns the Sharer's state, and why nothing is shared.
func (s *Sharing) status() (limiter.SharingStatus, error) {
	var status limiter.SharingStatus
	if s.sharer != nil {
		status = s.sharer.Status()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return status, s.trouble
}
