package metrics

import (
	"strconv"

	"tempomat/limiter"
	"tempomat/proxy/host"
)

// gate returns the lines of the gate.
func gate() []Metric {
	return []Metric{
		count("gate_shed_total", "gateShed", "Requests rejected because the queue was full.", func(s *State) uint64 { return s.Gate.Shed }),
		level("gate_workers", "gateWorkers", "The backend's workers; 0: unknown.", func(s *State) int { return s.Gate.Workers }),
		level("gate_busy", "gateBusy", "Requests at the backend.", func(s *State) int { return s.Gate.Busy }),
		level("gate_long_most", "gateLongMost", "Maximum number of requests at the backend that aren't short; 0: no limit.", func(s *State) int { return s.Gate.LongMost }),
		level("gate_long_busy", "gateLongBusy", "Requests at the backend that aren't short.", func(s *State) int { return s.Gate.LongBusy }),
		level("gate_holding", "gateHolding", "Requests that hold a worker without computing.", func(s *State) int { return s.Gate.Holding }),
		level("gate_orphans", "gateOrphans", "Requests whose client has disconnected.", func(s *State) int { return s.Gate.Orphans }),
		level("gate_room", "gateRoom", "Maximum number of requests of one size or smaller that may compute at once.", func(s *State) int { return s.Gate.Room }),
		bySize("gate_computing", "gateComputing", "Requests that are computing, by size.", func(s *State) []int { return s.Gate.Computing[:] }),
		bySize("gate_ahead", "gateAhead", "Requests that are computing and whose client is over its share, by size.", func(s *State) []int { return s.Gate.Ahead[:] }),
		bySize("gate_held", "gateHeld", "Requests that hold a worker, by how long they have held it.", func(s *State) []int { return s.Gate.Held[:] }),
		level("gate_probes", "gateProbes", "Requests of unknown cost that run to find out what they cost.", func(s *State) int { return s.Gate.Probes }),
		level("gate_queued", "gateQueued", "Requests in the queue.", func(s *State) int { return s.Gate.Queued }),
		gauge("gate_clock_seconds", "gateClock", "Clock of the fair queue, in virtual CPU seconds.", func(s *State) float64 { return s.Gate.Clock }),
		gauges("gate_cpu_utilisation", "gateUse", "Fraction of the backend's CPU time in use, 0 to 1.", func(s *State, tell tell) {
			if s.Gate.Utilisation >= 0 {
				tell(s.Gate.Utilisation)
			}
		}),
		gauges("cpu_pressure", "cpuPressure", "Fraction of the time during which processes waited for a CPU.", func(s *State, tell tell) {
			if s.Pressure >= 0 {
				tell(s.Pressure)
			}
		}),
		gauge("priority_on", "priorityOn", "1 if tempomat lowers priorities, otherwise 0.", func(s *State) float64 { return truth(s.Priorities.On) }),
		level("priority_lowered", "priorityLowered", "Backend processes whose priority is now lowered.", func(s *State) int { return s.Priorities.Lowered }),
		counts("priority_steps_total", "prioritySteps", "Priority changes, by the distance below normal.", func(s *State, tell tell) {
			for i, n := range s.Priorities.Steps {
				tell(float64(n), strconv.Itoa(host.StepDown(i+1)))
			}
		}, "below"),
		counts("priority_ends_total", "priorityEnds", "Lowered processes, by how the lowering ended.", func(s *State, tell tell) {
			p := &s.Priorities
			tell(float64(p.Restored), "restored")
			tell(float64(p.Recovered), "recovered")
			tell(float64(p.Ended), "ended")
			tell(float64(p.Abandoned), "changed")
			tell(float64(p.Failed), "failed")
		}, "end"),
		gauge("cpus", "cpus", "Number of CPUs of the backend.", func(s *State) float64 { return s.CPUs }),
	}
}

// bySize makes a line with a number for each size of requests.
func bySize(name, series, help string, get func(*State) []int) Metric {
	return gauges(name, series, help, func(s *State, tell tell) {
		sizes := [...]string{"25ms", "100ms", "400ms", "1600ms", "6400ms", "25600ms", "more"} // no dots, because they separate the parts of names in Graphite
		for i, n := range get(s) {
			tell(float64(n), sizes[i])
		}
	}, "size")
}

// sites returns the lines of sites: one for each named site, and one for all others.
func sites() []Metric {
	return []Metric{
		bySite("site_cpu_seconds_total", "siteCPU", Counter, "CPU seconds of the site's requests.", func(x *limiter.SiteState) float64 { return x.CPU }),
		bySite("site_wait_seconds_total", "siteWait", Counter, "Total wait of the site's requests in seconds.", func(x *limiter.SiteState) float64 { return x.Waited }),
		bySite("site_requests_total", "siteRequests", Counter, "Finished requests for the site.", func(x *limiter.SiteState) float64 { return float64(x.Ended) }),
		bySite("site_refused_total", "siteRefused", Counter, "Rejected requests for the site.", func(x *limiter.SiteState) float64 { return float64(x.Refused) }),
		bySite("site_busy", "siteBusy", Gauge, "Requests for the site at the backend.", func(x *limiter.SiteState) float64 { return float64(x.Busy) }),
		bySite("site_queued", "siteQueued", Gauge, "Requests for the site in the queue.", func(x *limiter.SiteState) float64 { return float64(x.Queued) }),
		bySite("site_share", "siteShare", Gauge, "Configured share of the site.", func(x *limiter.SiteState) float64 { return x.Share }),
	}
}

func bySite(name, series string, kind Kind, help string, get func(*limiter.SiteState) float64) Metric {
	return by(Metric{Name: name, Series: series, Kind: kind, Help: help}, func(s *State, tell tell) {
		for i := range s.Gate.Sites {
			tell(get(&s.Gate.Sites[i]), s.Gate.Sites[i].Name)
		}
	}, "site")
}
