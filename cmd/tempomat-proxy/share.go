package main

import (
	"context"
	"hash/fnv"
	"sync"
	"time"

	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/limiter"
	"tempomat/limiter/smockron"
	"tempomat/proxy/admin/api"
)

// sharing is with whom the sidecar shares its accounts, and how it goes.
type sharing struct {
	kind   string
	sharer limiter.Sharer // nil: it works alone
	// setPolicy tells the sharer of another policy; nil: it needs not know.
	setPolicy func(limiter.Policy)
	state     func() any // what the doctor shows of the sharer
	// ties tells what the sharer depends on, by name, and whether it is there.
	ties func() map[string]bool
	// setKeys changes the keys that the sharer encrypts with; nil: it has none.
	setKeys func(keys [][]byte) error

	mu      sync.Mutex // guards the following
	trouble error      // why nothing is shared, though it should be
}

// newSharing makes what the configuration names. It opens nothing but files of keys
// and of secrets.
func newSharing(c *config.Config, log *zap.Logger) (*sharing, error) {
	s := &sharing{kind: c.Coordination.Kind}
	switch s.kind {
	case "gossip":
		s.gossip(c.Coordination.Gossip, log)
	case "redis":
		r, err := newRedisSharer(c)
		if err != nil {
			return nil, err
		}
		s.sharer, s.setPolicy = r, r.SetPolicy
		s.state = func() any { return r.State() }
		s.ties = func() map[string]bool { return map[string]bool{"redis": r.State().Connected} }
	case "smockron":
		g := smockron.NewGatekeeper(smockron.GatekeeperOptions{
			Routes: routes(c), Queue: c.Coordination.Smockron.Queue, Now: time.Now,
		})
		s.sharer = g
		s.state = func() any { return g.State() }
		s.ties = func() map[string]bool {
			there := make(map[string]bool)
			for _, l := range g.State() {
				there["master "+l.Master] = l.Present
			}
			return there
		}
	}
	return s, nil
}

// run shares until the context ends. Whatever goes wrong, the sidecar goes on
// alone.
func (s *sharing) run(ctx context.Context, in limiter.Sink, log *zap.Logger) {
	if s.sharer == nil {
		if s.trouble != nil {
			log.Error("accounts are not shared; this sidecar works alone", zap.String("kind", s.kind), zap.Error(s.trouble))
		}
		return
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	watching.Go(func() { s.watch(ctx, log) })
	if err := s.sharer.Run(ctx, in); err != nil && ctx.Err() == nil {
		s.mu.Lock()
		s.trouble = err
		s.mu.Unlock()
		log.Error("accounts are not shared; this sidecar works alone", zap.String("kind", s.kind), zap.Error(err))
	}
}

// watch logs what the sharer depends on as it comes and goes.
func (s *sharing) watch(ctx context.Context, log *zap.Logger) {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	known := make(map[string]bool)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		for name, there := range s.ties() {
			was, seen := known[name]
			known[name] = there
			switch {
			case there && !was:
				log.Info("sharing with it", zap.String("with", name))
			case !there && (was || !seen):
				log.Warn("not to be reached; this sidecar goes by its own accounts", zap.String("with", name))
			}
		}
	}
}

// reply is what the admin API tells.
func (s *sharing) reply() api.ShareReply {
	r := api.ShareReply{Kind: s.kind}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trouble != nil {
		r.Trouble = s.trouble.Error()
	}
	if s.state != nil {
		r.State = s.state()
	}
	return r
}

// routes are the domains of this gatekeeper: those that are given, or one for each
// class.
func routes(c *config.Config) (all []smockron.Route) {
	k := &c.Coordination.Smockron
	for _, d := range k.Domains {
		r := smockron.Route{
			Domain: d.Domain, Class: d.Class, Requests: d.Charge == "requests", Rejected: k.Rejected,
			Master: smockron.Addresses(d.Master),
		}
		if r.Requests {
			r.Class = d.Domain // a class of its own, which its master judges
		}
		if d.Master == (config.MasterAddress{}) {
			r.Master = masterOf(k.Masters, d.Domain)
		}
		all = append(all, r)
	}
	if len(k.Domains) > 0 {
		return all
	}
	for _, class := range c.Classes {
		name := k.Site + "." + class.Name
		all = append(all, smockron.Route{Domain: name, Class: class.Name, Rejected: k.Rejected, Master: masterOf(k.Masters, name)})
	}
	return all
}

// masterOf picks the master of a domain: the same on all sidecars that have the
// same masters, and few domains move when one is added (rendezvous hashing, Thaler
// and Ravishankar 1998).
func masterOf(masters []config.MasterAddress, domain string) smockron.Addresses {
	var best config.MasterAddress
	var most uint64
	for _, m := range masters {
		h := fnv.New64a()
		_, _ = h.Write([]byte(m.Accounting + "\x00" + domain)) // never fails
		if w := h.Sum64(); best.Accounting == "" || w > most {
			best, most = m, w
		}
	}
	return smockron.Addresses(best)
}
