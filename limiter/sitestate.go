package limiter

import (
	"cmp"
	"slices"
)

// SiteState is what is shown of a site at the gate. Totals are since the start.
type SiteState struct {
	Name    string  `json:"name"` // OtherSites for what is no named site
	Share   float64 `json:"share"`
	Busy    int     `json:"busy"`    // requests at the backend
	Queued  int     `json:"queued"`  // requests that wait
	CPU     float64 `json:"cpu"`     // CPU-seconds of its requests that ended
	Waited  float64 `json:"waited"`  // seconds that its requests waited, summed up
	Ended   uint64  `json:"ended"`   // requests that ran
	Refused uint64  `json:"refused"` // requests that waited in vain, for too long or as the queue was full
	// Lead is by how many CPU-seconds of its share it is ahead of the sites' clock; negative:
	// behind.
	Lead  float64 `json:"lead"`
	Delay bool    `json:"delay"` // its requests may have to wait: it is neither in shadow nor observed
}

// OtherSites is what is no named site, in statistics.
const OtherSites = "others"

// siteStates tell of all sites, by their names; none if they are not told apart.
func (g *gate) siteStates() (all []SiteState) {
	if !g.divided {
		return nil
	}
	for _, s := range g.named {
		all = append(all, g.siteState(s, s.name))
	}
	slices.SortFunc(all, func(a, b SiteState) int { return cmp.Compare(a.Name, b.Name) })
	return append(all, g.siteState(&g.home, OtherSites))
}

func (g *gate) siteState(s *site, name string) SiteState {
	x := SiteState{
		Name: name, Share: s.among.share, Busy: s.busy, Queued: s.queued,
		CPU: s.settled, Waited: s.waited.Seconds(), Ended: s.ended, Refused: s.refused, Delay: !s.open,
	}
	if s.among.work > 0 {
		x.Lead = (g.tag(s) - g.clock.systemVirtualTime) * s.among.share
	}
	return x
}
