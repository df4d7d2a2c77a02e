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
	goneAfter      = 25 * time.Second // without a word
	forgetAfter    = time.Hour
	mostInstances  = 256
	// stands is for so many introductions a difference lasts before it is told: reloads and restarts
	// of a fleet come one after another.
	stands = 3
)

// fleet is who the other instances say that they are. With a secret they introduce themselves, sealed as
// whom they know is.
type fleet struct {
	mu    sync.Mutex         // guards the following
	all   map[uint32]*member // by what each has drawn at its start
	self  api.Instance       // this one, as it was told last
	seen  []api.Condition    // in what they and this one differ
	times int                // for how many introductions
	drift []api.Condition    // in what they have differed for a while
}

type member struct {
	api.Instance
	first, last time.Time // when it was heard
}

// meet notes what an instance says.
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
			return silent > forgetAfter || silent > goneAfter && same(m.Instance, i) // it is back
		})
		if len(f.all) >= mostInstances {
			return
		}
		m = &member{first: now}
		f.all[from] = m
	}
	if i.Now > m.Now { // else it was said before that: somebody sends it again
		m.Instance, m.last = i, now
	}
}

// same reports that two are one instance, which was restarted.
func same(a, b api.Instance) bool { return a.Name == b.Name && a.Socket == b.Socket }

// others are the instances that were heard in the last hour, by name; with live, those that are there
// now: what was kept for who begins comes all at once, and says nothing of now.
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

// introduce tells the others what this instance is, and in what they differ the log, until the context
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

// compare looks in what the instances differ, and tells what lasts as it comes and goes.
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

// alike reports that two differences are about the same fact.
func alike(a, b api.Condition) bool {
	of, _, _ := strings.Cut(a.What, ":")
	also, _, _ := strings.Cut(b.What, ":")
	return of == also
}

// introduction is an instance as it is sent. Classes that are too many are told by a fingerprint.
func introduction(i api.Instance) []byte {
	text, err := json.Marshal(i) //nolint:gosec // a secret's fingerprint
	if err == nil && len(text) > known.MostText {
		classes, _ := json.Marshal(i.Classes) // as above
		sum := sha256.Sum256(classes)
		i.Classes = map[string]string{fmt.Sprintf("%d classes", len(i.Classes)): hex.EncodeToString(sum[:8])}
		text, err = json.Marshal(i) //nolint:gosec // as above
	}
	if err != nil {
		return nil // a number that JSON does not have: the next one will have none
	}
	return text
}

// Drift is in what instances differ that should have it in common.
func (s *Sharing) Drift() []api.Condition {
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	return s.fleet.drift
}
