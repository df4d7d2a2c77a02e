package certificates

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"
)

const (
	// every is how often it is looked whether files have changed. It takes a call of the
	// system for each, and works on every file system and through links, which watching them
	// does not.
	every = 10 * time.Second
	// sayAgain is how often a warning is repeated.
	sayAgain = 24 * time.Hour
	// A certificate should have been renewed when this part of its time is left, or soon.
	soonPart, soon = 4, 14 * 24 * time.Hour
)

// Run looks for changes until the context ends.
func (s *Store) Run(ctx context.Context) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			s.Look(now)
		}
	}
}

// Look reads what has changed since.
func (s *Store) Look(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.read(now); err != nil {
		s.say(now, "sources", err.Error(), func() {
			s.log.Error("certificates cannot be read", zap.Error(err))
		})
	}
}

// tell logs that a pair was read, or could not be.
func (s *Store) tell(before, p pair, err error) {
	fields := []zap.Field{zap.String("certificate", p.certificate), zap.String("key", p.key)}
	switch {
	case err == nil:
		s.log.Info("certificate is in force", append(fields, zap.Strings("names", firstOf(p.names)), zap.Time("expires", p.shown.Leaf.NotAfter))...)
		clear(s.said) // what was wrong may be wrong again
	case before.fault == p.fault:
	case p.shown != nil:
		s.log.Error("a new certificate cannot be used; the one before stays", append(fields, zap.Error(err), zap.Time("expires", p.shown.Leaf.NotAfter))...)
	default:
		s.log.Error("a certificate cannot be used", append(fields, zap.Error(err))...)
	}
}

// firstOf are as many names as a line has room for.
func firstOf(names []string) []string { return names[:min(len(names), 10)] }

// warn logs what is about to go wrong, once a day.
func (s *Store) warn(now time.Time, p pair) {
	if p.public {
		s.say(now, "mode "+p.key, "", func() {
			s.log.Warn("everybody on this machine can read a private key; chmod o-r it", zap.String("key", p.key))
		})
	}
	if p.shown == nil {
		return
	}
	leaf := p.shown.Leaf
	left := leaf.NotAfter.Sub(now)
	fields := []zap.Field{zap.String("certificate", p.certificate), zap.Time("expires", leaf.NotAfter)}
	switch {
	case left <= 0:
		s.say(now, "expired "+p.certificate, "", func() { s.log.Error("a certificate has expired", fields...) })
	case left <= min(soon, leaf.NotAfter.Sub(leaf.NotBefore)/soonPart):
		s.say(now, "expires "+p.certificate, "", func() { s.log.Warn("a certificate expires soon, and was not renewed", fields...) })
	}
}

// say calls log unless the same was said lately.
func (s *Store) say(now time.Time, what, text string, log func()) {
	key := what + "\n" + text
	if at, ok := s.said[key]; ok && now.Sub(at) < sayAgain {
		return
	}
	if len(s.said) > 4*mostPairs {
		clear(s.said)
	}
	s.said[key] = now
	log()
}

// State is a certificate, as the Store has it.
type State struct {
	Certificate string    `json:"certificate"` // the file
	Names       []string  `json:"names"`
	Expires     time.Time `json:"expires"`         // zero: it was never read
	Fault       string    `json:"fault,omitempty"` // of what the file has now
}

// States are all certificates, in their order.
func (s *Store) States() []State {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]State, 0, len(s.pairs))
	for _, p := range s.pairs {
		state := State{Certificate: p.certificate, Names: slices.Clone(p.names), Fault: p.fault}
		if p.shown != nil {
			state.Expires = p.shown.Leaf.NotAfter
		}
		all = append(all, state)
	}
	return all
}
