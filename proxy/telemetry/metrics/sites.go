package metrics

import "tempomat/limiter"

// sites is the lines of the sites that are told apart: the named ones, which are bounded, and
// what is none of them.
func sites() []Metric {
	return []Metric{
		bySite("site_cpu_seconds_total", "siteCPU", Counter, "CPU-seconds of the requests for a site.", func(x *limiter.SiteState) float64 { return x.CPU }),
		bySite("site_wait_seconds_total", "siteWait", Counter, "Seconds that requests for a site waited at the gate, summed up.", func(x *limiter.SiteState) float64 { return x.Waited }),
		bySite("site_requests_total", "siteRequests", Counter, "Requests for a site that ran.", func(x *limiter.SiteState) float64 { return float64(x.Ended) }),
		bySite("site_refused_total", "siteRefused", Counter, "Requests for a site that waited in vain.", func(x *limiter.SiteState) float64 { return float64(x.Refused) }),
		bySite("site_busy", "siteBusy", Gauge, "Requests for a site at the backend.", func(x *limiter.SiteState) float64 { return float64(x.Busy) }),
		bySite("site_queued", "siteQueued", Gauge, "Requests for a site that wait at the gate.", func(x *limiter.SiteState) float64 { return float64(x.Queued) }),
		bySite("site_share", "siteShare", Gauge, "The share of a site, against those of the others.", func(x *limiter.SiteState) float64 { return x.Share }),
	}
}

func bySite(name, series string, kind Kind, help string, get func(*limiter.SiteState) float64) Metric {
	return by(Metric{Name: name, Series: series, Kind: kind, Help: help}, func(s *State, tell tell) {
		for i := range s.Gate.Sites {
			tell(get(&s.Gate.Sites[i]), s.Gate.Sites[i].Name)
		}
	}, "site")
}
