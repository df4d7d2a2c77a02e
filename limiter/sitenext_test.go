package limiter

import "testing"

// TestTheSitesClockIsThatOfTheLeastTag: the clock moves to the lowest tag among sites with waiting requests,
// and never goes back.
func TestTheSitesClockIsThatOfTheLeastTag(t *testing.T) {
	for name, x := range map[string]struct {
		tags []float64
		want float64
	}{
		"both are ahead":      {[]float64{105, 103}, 103},
		"one is behind":       {[]float64{105, 98}, 100},
		"one is at the clock": {[]float64{100, 105}, 100},
		"no request waits":    {nil, 100},
	} {
		g, r := siteAt(101, 1)
		for _, tag := range x.tags {
			g.contending = append(g.contending, &site{among: flow{virtualTime: tag, share: 1}})
		}
		r.guess = 3
		if g.takeTurn(r); g.clock.systemVirtualTime != x.want || r.site.among.virtualTime != 101+3 {
			t.Errorf("%s: the clock is at %g, want %g; the site is at %g", name, g.clock.systemVirtualTime, x.want, r.site.among.virtualTime)
		}
	}
}
