// Package sharing gives the sidecar the Sharer that its configuration names, keeps it
// running, and tells how it goes.
//
// A new way of sharing is a package beside limiter/redis, what makes its Sharer (ways.go) and
// a line in makers. Its keys are a section of the configuration in config/coordination.go; the
// tests hold both tables to the same names.
package sharing

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/limiter"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry/metrics"
)

// Sharing is with whom the sidecar shares its accounts, and how it goes. All methods may
// be called at any time, but Run once.
type Sharing struct {
	kind   string
	sharer limiter.Sharer // nil: it works alone
	log    *zap.Logger

	mu      sync.Mutex // guards the following
	trouble error      // why nothing is shared, though it should be
}

// New makes what the configuration names. It opens nothing but files of keys and of
// secrets.
func New(c *config.Config, log *zap.Logger) (*Sharing, error) {
	s := &Sharing{kind: c.Coordination.Kind, log: log}
	if s.kind == config.SharesNothing {
		return s, nil
	}
	maker, known := makers()[s.kind]
	if !known {
		return nil, fmt.Errorf("coordination.kind: this program cannot share by %s", s.kind)
	}
	var err error
	if s.sharer, err = maker(c, log); err != nil {
		return nil, err
	}
	if u, alone := s.sharer.(unable); alone {
		s.trouble = u.why // Run tells it the log
	}
	return s, nil
}

// Sharer is what the limiter tells of charges; nil if nothing is shared.
func (s *Sharing) Sharer() limiter.Sharer { return s.sharer }

// Run shares until the context ends. Whatever goes wrong, the sidecar goes on
// alone.
func (s *Sharing) Run(ctx context.Context, in limiter.Sink) {
	if s.sharer == nil {
		return
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	watching.Go(func() { s.watch(ctx) })
	if err := s.sharer.Run(ctx, in); err != nil && ctx.Err() == nil {
		s.mu.Lock()
		s.trouble = err
		s.mu.Unlock()
		s.log.Error("accounts are not shared; this sidecar works alone", zap.String("kind", s.kind), zap.Error(err))
	}
}

// watch logs what the sharer depends on as it comes and goes.
func (s *Sharing) watch(ctx context.Context) {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	known := make(map[string]bool)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		for name, there := range s.sharer.Status().Up {
			was, seen := known[name]
			known[name] = there
			switch {
			case there && !was:
				s.log.Info("sharing with it", zap.String("with", name))
			case !there && (was || !seen):
				s.log.Warn("not to be reached; this sidecar goes by its own accounts", zap.String("with", name))
			}
		}
	}
}

// Reload has the sharer go by another policy, and read its files again.
func (s *Sharing) Reload(p limiter.Policy) {
	r, ok := s.sharer.(reloader)
	if !ok {
		return
	}
	if err := r.Reload(p); err != nil {
		s.log.Error("sharing goes on as it was", zap.Error(err))
	}
}

// Reply is what the admin API tells of it.
func (s *Sharing) Reply() api.ShareReply {
	status, trouble := s.status()
	r := api.ShareReply{Kind: s.kind, State: status.Detail}
	if trouble != nil {
		r.Trouble = trouble.Error()
	}
	return r
}

// Numbers is what metrics tell of it.
func (s *Sharing) Numbers() metrics.Sharing {
	status, trouble := s.status()
	if trouble != nil {
		status.Up = map[string]bool{s.kind: false}
	}
	return metrics.Sharing{Kind: s.kind, SharingStatus: status}
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

// unable is in the place of a Sharer that could not be made, and without which the sidecar
// serves all the same.
type unable struct{ why error }

// Offer implements limiter.Sharer.
func (unable) Offer(limiter.Charge) bool { return false }

// Carry implements limiter.Sharer.
func (unable) Carry([]byte) bool { return false }

// Run implements limiter.Sharer.
func (u unable) Run(context.Context, limiter.Sink) error { return u.why }

// Status implements limiter.Sharer.
func (unable) Status() limiter.SharingStatus { return limiter.SharingStatus{} }

// makers are the ways of sharing, each by its value of coordination.kind. What makes a
// Sharer opens nothing but files of keys and of secrets.
func makers() map[string]func(*config.Config, *zap.Logger) (limiter.Sharer, error) {
	return map[string]func(*config.Config, *zap.Logger) (limiter.Sharer, error){
		"smockron": newSmockron,
		"redis":    newRedis,
		"gossip":   newGossip,
	}
}

// reloader is a Sharer that goes by something that a reload may change.
type reloader interface {
	// Reload takes it over: the policy, or files that are read again. If that fails, it
	// goes on as before.
	Reload(p limiter.Policy) error
}
