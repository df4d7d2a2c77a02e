package book

import (
	"math"
	"time"

	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

// Overview is who uses the server, as it was when the Book was told last. What is not of
// requests (Release, Mode, Uptime) is the caller's to fill in.
func (b *Book) Overview(m Moment) api.OverviewReply {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, long := b.window.last(lately)
	reply := api.OverviewReply{
		Version: api.Version, Seconds: lately, Now: unix(b.told), Gate: m.Gate, Sampled: 1, Wasted: round(wasted(s, long) * b.believed),
		Strangers: api.StrangersRow{Addresses: b.strangers.estimate()}, Use: b.series[0].use(lately),
		CPUs: m.CPUs, Backend: b.backendLocked(s), Places: []api.PlaceRow{},
	}
	for _, p := range m.Places {
		reply.Places = append(reply.Places, api.PlaceRow{Group: p.Group.String(), Shape: p.Shape, Count: p.Count})
	}
	all := 0.0
	for _, g := range telemetry.ShownGroups() {
		row := api.GroupRow{
			Name: g.String(), CPU: rate(s.cpu[g]*b.believed, long), Rate: rate(s.n[g], long),
			P50: round(s.took[g].Quantile(0.5)), P95: round(s.took[g].Quantile(0.95)),
			Refused: rate(s.refused[g], long), Redirected: rate(s.redirected[g], long),
			Waiting: m.Waiting.Count[g], Longest: round(m.Waiting.Longest[g].Seconds()),
		}
		reply.Groups = append(reply.Groups, row)
		reply.CPU = round(reply.CPU + row.CPU)
		all += s.n[g]
		if g == telemetry.Stranger || g == telemetry.Newcomer {
			x := &reply.Strangers
			x.CPU = round(x.CPU + row.CPU)
			x.Waiting += row.Waiting
			x.Longest = max(x.Longest, row.Longest)
		}
	}
	if all > 0 {
		reply.Sampled = min(1, s.kept/all)
	}
	return reply
}

// believeLocked finds out what part of the CPU time that requests were charged they can have used:
// all together no more than the CPUs were in use. A page that sleeps is charged for the worker that
// it holds, and what is shown as CPU is not to be that.
func (b *Book) believeLocked(cpus float64) {
	b.believed = 1
	s, long := b.window.last(lately)
	charged := 0.0
	for _, x := range s.cpu {
		charged += x
	}
	if used := b.series[0].use(lately) * cpus * long; used >= 0 && cpus > 0 && charged > used {
		b.believed = used / charged
	}
}

// backendLocked is how requests to the backend ended in the last seconds; where there were none, in the
// last minute, so that a site with few visitors is not taken for one that is well.
func (b *Book) backendLocked(s *sums) api.BackendRow {
	seconds := lately
	if s.backend.Requests == 0 {
		seconds = longest
		s, _ = b.window.last(longest)
	}
	x := &s.backend
	return api.BackendRow{Seconds: float64(seconds), Requests: x.Requests, Down: x.Down, Slow: x.Slow, Broke: x.Broke, Errors: x.Errors}
}

// unix is a time of the clock as the documents have it.
func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// wasted is at most what was used: what is found out to be for nobody only as it ends may
// have been used before that.
func wasted(s *sums, long float64) float64 {
	all := 0.0
	for _, x := range s.cpu {
		all += x
	}
	return rate(min(s.wasted, all), long)
}

// rate is a sum per second, never below 0: a request may turn out to cost less than it
// seemed to while it ran.
func rate(sum, seconds float64) float64 { return round(max(0, sum) / seconds) }

// round keeps what can be shown.
func round(x float64) float64 { return math.Round(x*1e4) / 1e4 }
