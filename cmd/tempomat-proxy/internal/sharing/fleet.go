package sharing

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"tempomat/limiter/known"
	"tempomat/proxy/admin/api"
)

const (
	introduceEvery = 10 * time.Second
	goneAfter      = 25 * time.Second // without an introduction
	forgetAfter    = time.Hour
	mostInstances  = 256
	// stands is the number of introductions for which a difference must last before it is logged. The instances
	// of a fleet are usually reloaded or restarted one after another, so they differ for a while.
	stands = 3
)

// fleet holds the introductions in which the other instances describe themselves. Instances send introductions, in
// sealed packets, if there is a secret.
type fleet struct {
	mu    sync.Mutex         // guards the fields below
	all   map[uint32]*member // by the random number that each instance draws at its start
	self  api.Instance       // this instance, as last introduced
	seen  []api.Condition    // how the instances differ
	times int                // number of introductions in a row with these differences
	drift []api.Condition    // differences that have lasted
}

type member struct {
	api.Instance
	first, last time.Time // when its introductions arrived
}

// meet stores the introduction of an instance.
func (f *fleet) meet(now time.Time, from uint32, text []byte) {
	var i api.Instance
	if json.Unmarshal(text, &i) != nil {
		return
	}
	i.Ahead = i.Now - float64(now.UnixMilli())/1000
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.all[from]
	if m == nil {
		maps.DeleteFunc(f.all, func(_ uint32, m *member) bool {
			silent := now.Sub(m.last)
			return silent > forgetAfter || silent > goneAfter && same(m.Instance, i) // the instance was restarted
		})
		if len(f.all) >= mostInstances {
			return
		}
		m = &member{first: now}
		f.all[from] = m
	}
	if i.Now > m.Now { // an older introduction may be a replay
		m.Instance, m.last = i, now
	}
}

// same reports whether two introductions come from the same instance, which may have restarted in between.
func same(a, b api.Instance) bool { return a.Name == b.Name && a.Socket == b.Socket }

// others returns the instances of the last hour, sorted by name, or only those that currently run if live is set. An
// instance that starts receives earlier introductions all at once. These don't prove that their sender is still
// running.
func (f *fleet) others(now time.Time, live bool) []api.Instance {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []api.Instance
	for _, m := range f.all {
		if !same(m.Instance, f.self) && (!live || now.Sub(m.last) < goneAfter && m.last.Sub(m.first) > time.Second) {
			all = append(all, m.Instance)
		}
	}
	slices.SortFunc(all, func(a, b api.Instance) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Socket, b.Socket))
	})
	return all
}

// introduce sends this instance's introduction to the others, and logs how the instances differ, until the context
// ends.
func (s *Sharing) introduce(ctx context.Context) {
	ticks := time.NewTicker(introduceEvery)
	defer ticks.Stop()
	for now := time.Now(); ; {
		self := s.self(now)
		if p := s.exchange.Introduce(now, introduction(self)); p != nil {
			s.sharer.Carry(p)
		}
		s.compare(now, self)
		select {
		case <-ctx.Done():
			return
		case now = <-ticks.C:
		}
	}
}

// compare finds differences between the instances. It logs those that last, and when they end.
func (s *Sharing) compare(now time.Time, self api.Instance) {
	drift := api.Drift(append(s.fleet.others(now, true), self))
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	s.fleet.self = self
	if s.fleet.times++; !slices.EqualFunc(drift, s.fleet.seen, alike) {
		s.fleet.seen, s.fleet.times = drift, 1
	}
	if s.fleet.times < stands {
		return
	}
	for _, d := range drift {
		if !slices.ContainsFunc(s.fleet.drift, func(was api.Condition) bool { return alike(was, d) }) {
			s.log.Warn(d.What + " " + d.Do)
		}
	}
	if len(s.fleet.drift) > 0 && len(drift) == 0 {
		s.log.Info("instances no longer differ")
	}
	s.fleet.drift = drift
}

// alike reports whether two differences are about the same subject.
func alike(a, b api.Condition) bool {
	of, _, _ := strings.Cut(a.What, ":")
	also, _, _ := strings.Cut(b.What, ":")
	return of == also
}

// introduction formats an instance. If the classes are too long for a packet, it contains their fingerprint
// instead.
func introduction(i api.Instance) []byte {
	text, err := json.Marshal(i) //nolint:gosec // a secret's fingerprint
	if err == nil && len(text) > known.MostText {
		classes, _ := json.Marshal(i.Classes) // as above
		sum := sha256.Sum256(classes)
		i.Classes = map[string]string{fmt.Sprintf("%d classes", len(i.Classes)): hex.EncodeToString(sum[:8])}
		text, err = json.Marshal(i) //nolint:gosec // as above
	}
	if err != nil {
		return nil // a number that JSON can't represent; the next introduction will work
	}
	return text
}

// Drift returns settings in which the instances differ although they should be the same.
func (s *Sharing) Drift() []api.Condition {
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	return s.fleet.drift
}
