// Package sharing gives the sidecar the Sharer that its configuration names, keeps it
// running, and tells how it goes.
//
// A new way of sharing is a package next to limiter/redis, what makes its Sharer (ways.go) and
// a line in makers. Its keys are a section of the configuration in config/coordination.go; the
// tests hold both tables to the same names.
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

// Sharing is with whom the sidecar shares its accounts, and how it goes. All methods may
// be called at any time, but Run once.
type Sharing struct {
	kind     string
	sharer   limiter.Sharer // nil: it works alone
	log      *zap.Logger
	file     string          // of the secret; empty: there is none
	exchange *known.Exchange // of who is known; does nothing without a secret
	self     func(now time.Time) api.Instance
	fleet    fleet

	mu      sync.Mutex // guards the following
	trouble error      // why nothing is shared, though it should be
	secret  *Secret    // nil: there is none
	trusted Trusted
	derived struct {
		signing, other string
		day            int64 // of tickets
	}
}

// Trusted are those whose keys are derived from the secret.
type Trusted struct {
	Known    *limiter.Known
	Standing *standing.Judge
	Passes   *newcomer.Redirector
	Tickets  func(keys [][32]byte) // of TLS; the first one encrypts
	// Self is what this instance is, as the others are told.
	Self func(now time.Time) api.Instance
}

// packets and passes are purposes of keys that come from the secret, as gossip is one.
const packets, passes, encryption = "packets", "passes", "gossip"

// New makes what the configuration names. It opens nothing but files of keys and of
// secrets.
func New(c *config.Config, log *zap.Logger) (*Sharing, error) {
	s := &Sharing{kind: c.Coordination.Kind, log: log, exchange: known.NewExchange(), fleet: fleet{all: make(map[uint32]*member)}}
	s.exchange.Meet(s.fleet.meet)
	var err error
	if c.Coordination.Secret != "" {
		if s.secret, err = readSecret(c.Coordination.Secret); err != nil {
			s.trouble = err
			return s, nil //nolint:nilerr // Run tells it the log
		}
		s.file = c.Coordination.Secret
	}
	if s.kind == config.SharesNothing {
		return s, nil
	}
	if s.file == "" {
		log.Info("debts are shared, and known clients are not: that needs coordination.secret (tempomat-proxy secret new)")
	}
	maker, known := makers()[s.kind]
	if !known {
		return nil, fmt.Errorf("coordination.kind: this program cannot share by %s", s.kind)
	}
	s.sharer, err = maker(c, s.secret, log)
	return s, err
}

// Sharer is what the limiter tells of charges; nil if nothing is shared.
func (s *Sharing) Sharer() limiter.Sharer { return s.sharer }

// Trust has them go by the secret, if there is one. It is called before they remember what was
// saved, and before the first request.
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

// deriveLocked gives all the keys that count now, if these are others than before.
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
			s.log.Error("the keys of the encryption stay as they were", zap.Error(err))
		}
	}
}

// Run shares until the context ends. Whatever goes wrong, the sidecar goes on
// alone.
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

// tell has the others told of who is known here, until the context ends.
func (s *Sharing) tell(ctx context.Context) {
	ticks := time.NewTicker(known.PackEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			for _, p := range s.exchange.Pack(now) {
				s.sharer.Carry(p) // what has no room is told again
			}
		}
	}
}

// foreign is how often it is told that another instance has another secret.
const foreign = time.Minute

// hasForeign reports whether something came recently that was made with another secret.
func (s *Sharing) hasForeign(now time.Time) bool {
	last := s.exchange.State().OtherAt
	if g, ok := s.sharer.(*gossip.Sharer); ok && g.ForeignAt().After(last) {
		last = g.ForeignAt()
	}
	return now.Sub(last) < foreign
}

// watch logs what the sharer depends on as it comes and goes, and other secrets; and it has keys
// follow the time.
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
			s.log.Warn("another instance has another coordination.secret: neither learns from the other. Copy one file to all, and reload them",
				zap.String("fingerprint", x.Secret), zap.String("theirs", x.Other))
		}
		if s.sharer == nil {
			continue
		}
		status := s.sharer.Status()
		if status.Peers > peers { // who was split off may know others
			s.exchange.Ask(now)
		}
		peers = status.Peers
		for name, there := range status.Up {
			was, seen := up[name]
			up[name] = there
			switch {
			case there && !was:
				s.exchange.Ask(now)
				s.log.Info("sharing with it", zap.String("with", name))
			case !there && (was || !seen):
				s.log.Warn("not to be reached; this instance goes by its own accounts", zap.String("with", name))
			}
		}
	}
}

// Reload has the sharer go by another policy, and reads the secret's file again.
func (s *Sharing) Reload(p limiter.Policy) {
	if err := s.reread(time.Now()); err != nil {
		s.log.Error("the secret stays as it was", zap.Error(err))
	}
	if r, ok := s.sharer.(interface{ SetPolicy(p limiter.Policy) }); ok {
		r.SetPolicy(p)
	}
}

// reread reads the secret's file again.
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
		return fmt.Errorf("coordination.secret: %s: is not a rotation of the one before, because its last line differs: that takes a restart", s.file)
	}
	s.secret = secret
	s.deriveLocked(now)
	return nil
}

// Reply is what the admin API tells of it.
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

// Fingerprint is that of the secret that signs; empty: there is none.
func (s *Sharing) Fingerprint() string { return s.exchange.State().Secret }

// Numbers is what metrics tell of it.
func (s *Sharing) Numbers() metrics.Sharing {
	status, trouble := s.status()
	x := s.exchange.State()
	status.Unsound += x.Forged + x.Foreign + x.Stale
	if trouble != nil {
		status.Up = map[string]bool{s.kind: false}
	}
	return metrics.Sharing{Kind: s.kind, SharingStatus: status, OtherSecret: s.hasForeign(time.Now()), Drift: len(s.Drift())}
}

// status is what the sharer tells, and why nothing is shared.
func (s *Sharing) status() (limiter.SharingStatus, error) {
	var status limiter.SharingStatus
	if s.sharer != nil {
		status = s.sharer.Status()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return status, s.trouble
}

// makers are the ways of sharing, each by its value of coordination.kind. What makes a
// Sharer opens nothing but files of keys and of secrets.
func makers() map[string]func(*config.Config, *Secret, *zap.Logger) (limiter.Sharer, error) {
	return map[string]func(*config.Config, *Secret, *zap.Logger) (limiter.Sharer, error){
		"smockron": newSmockron,
		"redis":    newRedis,
		"gossip":   newGossip,
	}
}
