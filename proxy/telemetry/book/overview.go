package book

import (
	"math"
	"time"

	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

// Overview is who uses the server, as it was when the Book was told last. What is not of
// requests (Release, Mode, Uptime, CPUs) is the caller's to fill in.
func (b *Book) Overview(m Moment) api.OverviewReply {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, long := b.window.last(lately)
	reply := api.OverviewReply{
		Version: api.Version, Seconds: lately, Now: unix(b.told), Gate: m.Gate, Sampled: 1, Wasted: wasted(s, long),
		Strangers: api.StrangersRow{Addresses: b.strangers.estimate()}, Use: b.series[0].use(lately),
	}
	all := 0.0
	for _, g := range telemetry.ShownGroups() {
		row := api.GroupRow{
			Name: g.String(), CPU: rate(s.cpu[g], long), Rate: rate(s.n[g], long),
			P50: round(s.took[g].quantile(0.5)), P95: round(s.took[g].quantile(0.95)),
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
