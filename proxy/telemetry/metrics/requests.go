package metrics

import (
	"time"

	"tempomat/proxy/telemetry"
)

func requests() []Metric {
	all := func(get func(*telemetry.Sums) uint64) func(*State) uint64 {
		return func(s *State) uint64 {
			sums := s.Totals.All()
			return get(&sums)
		}
	}
	ended := func(o telemetry.Outcome) func(*State) uint64 {
		return all(func(x *telemetry.Sums) uint64 { return x.Ended[o] })
	}
	return []Metric{
		counts("requests_total", "requestsOf", "Requests that are over, by group and outcome.", byOutcome, "group", "outcome"),
		count("", "requests", "Requests that are over.", all((*telemetry.Sums).Requests)),
		count("", "exempt", "Of them, those that are exempt.", func(s *State) uint64 { return s.Totals.Groups[telemetry.Exempt].Requests() }),
		count("", "refused", "Of them, those that were refused.", ended(telemetry.Refused)),
		count("", "redirected", "Of them, newcomers that were redirected.", ended(telemetry.Redirected)),
		count("", "clientGone", "Of them, those whose client left before the answer.", ended(telemetry.ClientGone)),
		count("", "backendDown", "Of them, those for which there was no connection to the backend.", ended(telemetry.BackendDown)),
		count("", "backendSlow", "Of them, those that the backend did not answer in time.", ended(telemetry.BackendSlow)),
		count("", "backendBroke", "Of them, those whose answer the backend broke off.", ended(telemetry.BackendBroke)),
		counts("refused_total", "refusedOf", "Requests that were refused, by group and reason.", byRefusal, "group", "reason"),
		groupCount("delayed_total", "delayedOf", "Requests that were delayed, by group.", func(x *telemetry.Sums) uint64 { return x.Delayed }),
		count("", "delayed", "Requests that were delayed.", all(func(x *telemetry.Sums) uint64 { return x.Delayed })),
		groupSeconds("delay_seconds_total", "delaySecondsOf", "Seconds that requests were delayed, by group.", func(x *telemetry.Sums) time.Duration { return x.Delay }),
		allSeconds("delaySeconds", "Seconds that requests were delayed.", func(x *telemetry.Sums) time.Duration { return x.Delay }),
		groupCount("shadowed_total", "shadowedOf", "Requests that would have been delayed or refused and were not, by group.", func(x *telemetry.Sums) uint64 { return x.Shadowed }),
		count("", "shadowed", "Requests that would have been delayed or refused and were not.", all(func(x *telemetry.Sums) uint64 { return x.Shadowed })),
		count("malformed_total", "malformed", "What was to be a request and is none; not among the requests.", func(s *State) uint64 { return s.Totals.Malformed }),
		groupSeconds("cpu_seconds_total", "costSecondsOf", "CPU-seconds that requests were charged with, by group.", func(x *telemetry.Sums) time.Duration { return x.Cost }),
		allSeconds("costSeconds", "CPU-seconds that requests were charged with.", func(x *telemetry.Sums) time.Duration { return x.Cost }),
		by(Metric{Name: "cost_seconds_total", Series: "costBy", Kind: Counter, Help: "CPU-seconds that requests used which are over, by what that is known from: their workers' processes, the database that they waited for, the backend's word, or their time."}, func(s *State, tell tell) {
			tell(s.Costs.Process.Seconds(), "process")
			tell(s.Costs.Database.Seconds(), "database")
			tell(s.Costs.Told.Seconds(), "header")
			tell(s.Costs.Estimated.Seconds(), "estimate")
		}, "source"),
		counts("cost_requests_total", "costRequests", "Requests that are over, each by what most of its cost is known from: its worker's process (and a database's), the backend's word, or its time.", func(s *State, tell tell) {
			tell(float64(s.Costs.Requests.Process), "process")
			tell(float64(s.Costs.Requests.Told), "header")
			tell(float64(s.Costs.Requests.Estimated), "estimate")
		}, "source"),
		groupSeconds("wasted_cpu_seconds_total", "wastedSecondsOf", "Of the CPU-seconds, those for clients that had left, by group.", func(x *telemetry.Sums) time.Duration { return x.Wasted }),
		allSeconds("wastedSeconds", "Of the CPU-seconds, those for clients that had left.", func(x *telemetry.Sums) time.Duration { return x.Wasted }),
		count("newcomers_redirected_total", "newcomersRedirected", "Newcomers that were redirected to the same URL, with a pass.", func(s *State) uint64 { return s.Redirects.Redirected }),
		count("newcomers_came_back_total", "newcomersCameBack", "Of the redirected, addresses that came back with their pass, once each.", func(s *State) uint64 { return s.Redirects.CameBack }),
		count("newcomers_pass_requests_total", "newcomersPassed", "Requests that brought a valid pass.", func(s *State) uint64 { return s.Redirects.Served }),
		counts("newcomers_served_total", "", "Requests of newcomers with a pass that were answered by the backend.", func(s *State, tell tell) {
			tell(float64(s.Totals.Groups[telemetry.Newcomer].Ended[telemetry.Answered]))
		}),
		count("newcomers_not_again_total", "newcomersNotAgain", "Newcomers that were not redirected as their address had been lately.", func(s *State) uint64 { return s.Redirects.Again }),
	}
}

// limits are the lines of classes and request limits.
func limits() []Metric {
	return []Metric{
		byName("class", "class_delayed_total", "classDelayed", "Requests that were delayed for the debt of a key of the class.", func(x *telemetry.NameTotals) uint64 { return x.Delayed }),
		byName("class", "class_refused_total", "classRefused", "Requests that were refused for the debt of a key of the class.", func(x *telemetry.NameTotals) uint64 { return x.Refused }),
		byName("class", "class_shadowed_total", "classShadowed", "Requests that would have been delayed or refused for the debt of a key of the class, and were not.", func(x *telemetry.NameTotals) uint64 { return x.Shadowed }),
		byName("limit", "limit_matched_total", "limitMatched", "Requests that the request limit is for.", func(x *telemetry.NameTotals) uint64 { return x.Matched }),
		byName("limit", "limit_refused_total", "limitRefused", "Requests that the request limit refused.", func(x *telemetry.NameTotals) uint64 { return x.Refused }),
		byName("limit", "limit_shadowed_total", "limitShadowed", "Requests that the request limit would have refused, and did not.", func(x *telemetry.NameTotals) uint64 { return x.Shadowed }),
		counts("strict_checks_total", "strictChecks", "Calls to Redis for strict request limits that were answered.", strict(func(s *Strict) uint64 { return s.Checks })),
		counts("strict_failures_total", "strictFailures", "Calls to Redis for strict request limits that were not.", strict(func(s *Strict) uint64 { return s.Failures })),
	}
}

func strict(get func(*Strict) uint64) func(*State, tell) {
	return func(s *State, tell tell) {
		if s.Strict != nil {
			tell(float64(get(s.Strict)))
		}
	}
}

// waiting are the lines of who waits at this moment.
func waiting() []Metric {
	return []Metric{
		gauges("waiting_requests", "waiting", "Requests that wait at this moment, by group.", func(s *State, tell tell) {
			for g, n := range s.Waiting.Count {
				tell(float64(n), telemetry.Group(g).String())
			}
		}, "group"),
		gauges("waiting_longest_seconds", "waitingLongest", "For how long the first of them has waited, by group.", func(s *State, tell tell) {
			for g, d := range s.Waiting.Longest {
				tell(d.Seconds(), telemetry.Group(g).String())
			}
		}, "group"),
	}
}

func byOutcome(s *State, tell tell) {
	for g := range telemetry.Groups {
		for o := range telemetry.Outcomes {
			tell(float64(s.Totals.Groups[g].Ended[o]), telemetry.Group(g).String(), telemetry.Outcome(o).String())
		}
	}
}

func byRefusal(s *State, tell tell) {
	for g := range telemetry.Groups {
		for r := range telemetry.Refusals {
			tell(float64(s.Totals.Groups[g].Refused[r]), telemetry.Group(g).String(), telemetry.Refusal(r).String())
		}
	}
}

func groupCount(name, series, help string, get func(*telemetry.Sums) uint64) Metric {
	return counts(name, series, help, func(s *State, tell tell) {
		for g := range s.Totals.Groups {
			tell(float64(get(&s.Totals.Groups[g])), telemetry.Group(g).String())
		}
	}, "group")
}

func groupSeconds(name, series, help string, get func(*telemetry.Sums) time.Duration) Metric {
	return by(Metric{Name: name, Series: series, Kind: Counter, Help: help}, func(s *State, tell tell) {
		for g := range s.Totals.Groups {
			tell(get(&s.Totals.Groups[g]).Seconds(), telemetry.Group(g).String())
		}
	}, "group")
}

// allSeconds is a line of all groups together, for Graphite.
func allSeconds(series, help string, get func(*telemetry.Sums) time.Duration) Metric {
	return by(Metric{Series: series, Kind: Counter, Help: help}, func(s *State, tell tell) {
		all := s.Totals.All()
		tell(get(&all).Seconds())
	})
}

// byName is a line with a number for each class, or for each request limit.
func byName(label, name, series, help string, get func(*telemetry.NameTotals) uint64) Metric {
	return counts(name, series, help, func(s *State, tell tell) {
		all := s.Totals.Classes
		if label == "limit" {
			all = s.Totals.Limits
		}
		for i := range all {
			tell(float64(get(&all[i])), all[i].Name)
		}
	}, label)
}
