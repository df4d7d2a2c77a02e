package sharing

import (
	"hash/fnv"
	"time"

	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/limiter"
	"tempomat/limiter/smockron"
)

// newSmockron makes what shares accounts through masters.
func newSmockron(c *config.Config, _ *zap.Logger) (limiter.Sharer, error) {
	return smockron.NewGatekeeper(smockron.GatekeeperOptions{
		Routes: routes(c), Queue: c.Coordination.Smockron.Queue, Now: time.Now,
	}), nil
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
