package metrics

import (
	"slices"

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
	return slices.Concat([]Metric{
		counts("requests_total", "requestsOf", "Finished requests, by group and outcome.", byOutcome, "group", "outcome"),
		count("", "requests", "Finished requests.", all((*telemetry.Sums).Requests)),
		count("", "exempt", "Exempt requests.", func(s *State) uint64 { return s.Totals.Groups[telemetry.Exempt].Requests() }),
		count("", "refused", "Rejected requests.", ended(telemetry.Refused)),
		count("", "redirected", "Redirected requests from newcomers.", ended(telemetry.Redirected)),
		count("", "clientGone", "Requests whose client disconnected before the response was complete.", ended(telemetry.ClientGone)),
		count("", "backendDown", "Requests that couldn't reach the backend (502).", ended(telemetry.BackendDown)),
		count("", "backendSlow", "Requests that the backend didn't answer in time (504).", ended(telemetry.BackendSlow)),
		count("", "backendBroke", "Requests whose response the backend cut off.", ended(telemetry.BackendBroke)),
		counts("refused_total", "refusedOf", "Rejected requests, by group and reason.", byRefusal, "group", "reason"),
	},
		ofGroups("delayed_total", "delayed", "Delayed requests", true, func(x *telemetry.Sums) float64 { return float64(x.Delayed) }),
		ofGroups("delay_seconds_total", "delaySeconds", "Total delay in seconds", false, func(x *telemetry.Sums) float64 { return x.Delay.Seconds() }),
		ofGroups("shadowed_total", "shadowed", "Delays and rejections in shadow mode", true, func(x *telemetry.Sums) float64 { return float64(x.Shadowed) }),
		ofGroups("cpu_seconds_total", "costSeconds", "CPU seconds charged", false, func(x *telemetry.Sums) float64 { return x.Cost.Seconds() }),
		ofGroups("wasted_cpu_seconds_total", "wastedSeconds", "CPU seconds used for clients that had disconnected", false, func(x *telemetry.Sums) float64 { return x.Wasted.Seconds() }),
		[]Metric{
			count("malformed_total", "malformed", "Invalid requests, which don't count as finished.", func(s *State) uint64 { return s.Totals.Malformed }),
			count("fetchers_requests_total", "fetchers", "Finished requests from verified fetchers that act for people, such as ChatGPT-User.", all(func(x *telemetry.Sums) uint64 { return x.Fetchers })),
			by(Metric{Name: "fetchers_cpu_seconds_total", Series: "fetchersSeconds", Kind: Counter, Help: "CPU seconds charged to verified fetchers that act for people."}, func(s *State, tell tell) {
				all := s.Totals.All()
				tell(all.Fetched.Seconds())
			}),
			by(Metric{Name: "cost_seconds_total", Series: "costBy", Kind: Counter, Help: "CPU seconds, by the source of the figure: process, database, header or estimate."}, func(s *State, tell tell) {
				tell(s.Costs.Process.Seconds(), "process")
				tell(s.Costs.Database.Seconds(), "database")
				tell(s.Costs.Told.Seconds(), "header")
				tell(s.Costs.Estimated.Seconds(), "estimate")
			}, "source"),
			counts("cost_requests_total", "costRequests", "Finished requests, by the source of most of their cost.", func(s *State, tell tell) {
				tell(float64(s.Costs.Requests.Process), "process")
				tell(float64(s.Costs.Requests.Told), "header")
				tell(float64(s.Costs.Requests.Estimated), "estimate")
			}, "source"),
			count("newcomers_redirected_total", "newcomersRedirected", "Newcomers redirected with a pass.", func(s *State) uint64 { return s.Redirects.Redirected }),
			count("newcomers_came_back_total", "newcomersCameBack", "Redirected addresses that returned with their pass.", func(s *State) uint64 { return s.Redirects.CameBack }),
			count("newcomers_pass_requests_total", "newcomersPassed", "Requests with a valid pass.", func(s *State) uint64 { return s.Redirects.Served }),
			counts("newcomers_served_total", "", "Requests with a pass that were served.", func(s *State, tell tell) {
				tell(float64(s.Totals.Groups[telemetry.Newcomer].Ended[telemetry.Answered]))
			}),
			count("newcomers_not_again_total", "newcomersNotAgain", "Newcomers not redirected because their address was redirected recently.", func(s *State) uint64 { return s.Redirects.Again }),
		})
}

// ofGroups makes two lines: one number per group, and the sum of all groups for Graphite and the
// status. whole means that the numbers are integers.
func ofGroups(name, series, help string, whole bool, get func(*telemetry.Sums) float64) []Metric {
	return []Metric{
		by(Metric{Name: name, Series: series + "Of", Kind: Counter, Whole: whole, Help: help + ", by group."}, func(s *State, tell tell) {
			for g := range s.Totals.Groups {
				tell(get(&s.Totals.Groups[g]), telemetry.Group(g).String())
			}
		}, "group"),
		by(Metric{Series: series, Kind: Counter, Whole: whole, Help: help + "."}, func(s *State, tell tell) {
			all := s.Totals.All()
			tell(get(&all))
		}),
	}
}

// limits returns the lines of classes and request limits.
func limits() []Metric {
	return []Metric{
		byName("class", "class_delayed_total", "classDelayed", "Requests delayed by the class.", func(x *telemetry.NameTotals) uint64 { return x.Delayed }),
		byName("class", "class_refused_total", "classRefused", "Requests rejected by the class.", func(x *telemetry.NameTotals) uint64 { return x.Refused }),
		byName("class", "class_shadowed_total", "classShadowed", "Delays and rejections in shadow mode, by class.", func(x *telemetry.NameTotals) uint64 { return x.Shadowed }),
		byName("limit", "limit_matched_total", "limitMatched", "Requests that matched the limit.", func(x *telemetry.NameTotals) uint64 { return x.Matched }),
		byName("limit", "limit_refused_total", "limitRefused", "Requests that the limit rejected.", func(x *telemetry.NameTotals) uint64 { return x.Refused }),
		byName("limit", "limit_shadowed_total", "limitShadowed", "Rejections by the limit in shadow mode.", func(x *telemetry.NameTotals) uint64 { return x.Shadowed }),
		counts("strict_checks_total", "strictChecks", "Answered calls to Redis for strict limits.", strict(func(s *Strict) uint64 { return s.Checks })),
		counts("strict_failures_total", "strictFailures", "Failed calls to Redis for strict limits.", strict(func(s *Strict) uint64 { return s.Failures })),
	}
}

func strict(get func(*Strict) uint64) func(*State, tell) {
	return func(s *State, tell tell) {
		if s.Strict != nil {
			tell(float64(get(s.Strict)))
		}
	}
}

// waiting returns the lines of requests that wait now.
func waiting() []Metric {
	return []Metric{
		gauges("waiting_requests", "waiting", "Requests waiting now, by group.", func(s *State, tell tell) {
			for g, n := range s.Waiting.Count {
				tell(float64(n), telemetry.Group(g).String())
			}
		}, "group"),
		gauges("waiting_longest_seconds", "waitingLongest", "Longest current wait, by group.", func(s *State, tell tell) {
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

// byName makes a line with a number for each class, or for each request limit.
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
