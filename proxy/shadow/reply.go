package shadow

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

// Totals tells how many requests would have met what since the start, for whom counts.
func (t *Twin) Totals(tell func(cause, action string, n uint64)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, reason := range slices.Sorted(maps.Keys(t.totals)) {
		for w := wouldDelay; int(w) < wouldBe; w++ {
			tell(reason, w.String(), t.totals[reason][w])
		}
	}
}

// Lost is how many requests are not reckoned with since the start, as there was no room.
func (t *Twin) Lost() uint64 { return t.lost.Load() }

// Reply is the document of the last hours, the one that runs included.
func (t *Twin) Reply(hours int) api.ShadowReply {
	t.mu.Lock()
	defer t.mu.Unlock()
	reply := api.ShadowReply{Version: api.Version, Window: patience.Seconds(), Modes: []api.ShadowMode{}}
	if t.plan != nil {
		reply.Mode = t.plan.Mode
	}
	if !t.until.IsZero() {
		reply.Until = float64(t.until.UnixMilli()) / 1000
	}
	all := t.allLocked()
	var last int64
	if len(all) > 0 {
		last = all[len(all)-1].At
	}
	sums := make(map[string]*tally)
	for _, h := range all {
		if h.At <= last-int64(hours)*secondsOfHour {
			continue
		}
		i := slices.IndexFunc(reply.Modes, func(m api.ShadowMode) bool { return m.Mode == h.Mode })
		if i < 0 {
			i = len(reply.Modes)
			reply.Modes = append(reply.Modes, api.ShadowMode{Mode: h.Mode})
			sum := newTally()
			sums[h.Mode] = &sum
		}
		sums[h.Mode].merge(&h.tally)
		reply.Modes[i].Hours = append(reply.Modes[i].Hours, api.ShadowHour{At: float64(h.At), ShadowSum: h.sum()})
	}
	for i := range reply.Modes {
		m := &reply.Modes[i]
		sum := sums[m.Mode]
		m.ShadowSum, m.Classes = sum.sum(), sum.classes()
	}
	return reply
}

// sum is a tally as it is told, without its keys.
func (t *tally) sum() api.ShadowSum {
	s := api.ShadowSum{Requests: t.Requests, Lost: t.Lost, Late: t.Late, Causes: []api.ShadowCause{}}
	for _, g := range telemetry.ShownGroups() {
		x := &t.Groups[g]
		s.Groups = append(s.Groups, api.ShadowGroup{Name: g.String(), Requests: x.Requests, Was: x.Was.told(), Would: x.Would.told()})
	}
	for _, name := range slices.Sorted(maps.Keys(t.Causes)) {
		s.Causes = append(s.Causes, api.ShadowCause{Name: name, ShadowDone: t.Causes[name].told()})
	}
	slices.SortStableFunc(s.Causes, func(a, b api.ShadowCause) int {
		return cmp.Compare(b.Delayed+b.Refused+b.Redirected, a.Delayed+a.Refused+a.Redirected)
	})
	return s
}

func (d *done) told() api.ShadowDone {
	return api.ShadowDone{
		CPU: rounded(d.CPU), Delayed: d.Delayed, Refused: d.Refused, Redirected: d.Redirected,
		P50: rounded(d.Waits.quantile(0.5)), P95: rounded(d.Waits.quantile(0.95)),
	}
}

func (t *tally) classes() []api.ShadowClass {
	all := []api.ShadowClass{}
	for _, class := range slices.Sorted(maps.Keys(t.Keys)) {
		c := api.ShadowClass{Class: class, Keys: []api.ShadowKey{}}
		for _, m := range t.Keys[class].top(keysKept) {
			c.Keys = append(c.Keys, api.ShadowKey{
				Name: m.Name, Delayed: m.Delayed, Refused: m.Refused, Redirected: m.Redirected, CPU: rounded(m.CPU), Longest: rounded(m.Longest), Error: m.Error,
			})
		}
		all = append(all, c)
	}
	return all
}

// rounded leaves a tenth of a millisecond.
func rounded(x float64) float64 { return math.Round(x*1e4) / 1e4 }
