package sim

import "tempomat/limiter"

// shares are sites of a backend with their shares, named a, b, c and so on.
func shares(all ...float64) (sites []limiter.SiteInfo) {
	for i, share := range all {
		sites = append(sites, limiter.SiteInfo{Name: siteName(i), Share: share})
	}
	return sites
}

func siteName(i int) string { return "abcdefgh"[i : i+1] }

// of has clients ask for a site.
func of(i int, cs []*Client) []*Client {
	for _, c := range cs {
		c.Host = siteName(i) + ".test"
	}
	return cs
}

// called has clients be of another kind.
func called(kind string, cs []*Client) []*Client {
	for _, c := range cs {
		c.Kind = kind
	}
	return cs
}

// apart moves clients to other addresses.
func apart(by uint32, cs []*Client) []*Client {
	for _, c := range cs {
		c.Address += by
	}
	return cs
}

// posing is a crawl that comes as people do: from so many addresses, with browsers that bring
// cookies back and load the parts of their pages, for pages of so many CPU-seconds.
func posing(n int, think, cost float64) []*Client {
	return browsing(asking(flatCrawlers(n, 1, think), []Page{{Path: "/page", CPU: cost}}))
}

// saturating are clients that always ask, for pages of so many CPU-seconds.
func saturating(site, n int, cost float64) []*Client {
	cs := called(siteName(site), of(site, apart(uint32(site)<<24, posing(n, 0, cost)))) //nolint:gosec // few
	for _, c := range cs {
		c.From, c.Timeout = 0, 1000
	}
	return cs
}
