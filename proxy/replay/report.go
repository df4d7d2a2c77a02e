package replay

import (
	"time"

	"tempomat/proxy/telemetry/sketch"
)

// Report is what a replay found. Times are seconds.
type Report struct {
	Format  Format    `json:"format"`
	Lines   Lines     `json:"lines"`
	From    time.Time `json:"from"` // the first request, and the last moment that anything ran
	To      time.Time `json:"to"`
	CPUs    float64   `json:"cpus"`
	Workers int       `json:"workers"`
	Mode    string    `json:"mode"`
	Total   Total     `json:"total"`
	Classes []Class   `json:"classes"`
	Hours   []*Hour   `json:"hours"` // those in which anything was asked for, or ran
	Shares  []Share   `json:"shares"`
}

// Total is all requests.
type Total struct {
	Requests        int     `json:"requests"`
	Exempt          int     `json:"exempt"`
	Trusted         int     `json:"trusted"`         // whose address is a trusted proxy's, and so hardly their client's
	CPUSeconds      float64 `json:"cpuSeconds"`      // that the simulated backend used
	AskedCPUSeconds float64 `json:"askedCPUSeconds"` // of all requests, those included that were refused
	Known           Group   `json:"known"`
	Strangers       Group   `json:"strangers"`
}

// Group is what became of the requests of known clients, or of strangers.
type Group struct {
	Requests   int     `json:"requests"`
	Delayed    int     `json:"delayed"` // served, after Remarkable or longer
	Refused    int     `json:"refused"`
	TurnedAway int     `json:"turnedAway"` // by the backend, whose workers were all taken
	P95        float64 `json:"p95"`        // of the waits of those who were delayed, about
	Longest    float64 `json:"longest"`    // wait of one who was served
	waits      sketch.Histogram
}

func (g *Group) add(waited time.Duration, o outcome) {
	g.Requests++
	switch o {
	case refused:
		g.Refused++
		return
	case turnedAway:
		g.TurnedAway++
		return
	case served, left: // of whom a log tells, nobody leaves
	}
	g.Longest = max(g.Longest, waited.Seconds())
	if waited >= remarkable {
		g.Delayed++
		g.waits.Add(waited.Seconds(), 1)
		g.P95 = min(g.waits.Quantile(0.95), g.Longest)
	}
}

// Hour is what happened in one.
type Hour struct {
	Begin      time.Time `json:"begin"`
	Requests   int       `json:"requests"` // that came in it
	CPUSeconds float64   `json:"cpuSeconds"`
	Busy       float64   `json:"busy"` // part of the CPUs that was used, 0 to 1
	Known      Group     `json:"known"`
	Strangers  Group     `json:"strangers"`
}

// Key is what became of the requests of one key, or of all of a class.
type Key struct {
	ID         string  `json:"id,omitempty"`
	Requests   int     `json:"requests"`
	Delayed    int     `json:"delayed"`
	Owing      int     `json:"owing"`   // of them and of the refused, because this class owed
	Refused    int     `json:"refused"` // or turned away
	CPUSeconds float64 `json:"cpuSeconds"`
	Longest    float64 `json:"longest"` // wait
}

// Class is what became of the requests of a class.
type Class struct {
	Class string `json:"class"`
	Keys  int    `json:"keys"` // about, if there are more than are remembered
	Key
	Top []Key `json:"top"` // the keys that used the most
}

// Share is what is proposed for a class. See need.go for how it is derived.
type Share struct {
	Class    string  `json:"class"`
	Now      float64 `json:"now"`
	Proposed float64 `json:"proposed"`
	Keys     int     `json:"keys"`    // that it is derived from
	Half     float64 `json:"half"`    // what half of them need at most
	Most     float64 `json:"most"`    // what all of them need
	Beyond   int     `json:"beyond"`  // those whom the whole machine would not be enough
	OweNow   int     `json:"oweNow"`  // those that would ever owe with the share of now
	OweThen  int     `json:"oweThen"` // and with the one that is proposed
}

// topKeys is how many keys of a class are told.
const topKeys = 20

func (p *player) report() *Report {
	t := p.tally
	r := &Report{
		Format: p.lines.format, Lines: p.lines.counts, From: t.epoch.Add(t.from), To: t.epoch.Add(t.to),
		CPUs: p.setup.CPUs, Workers: p.setup.Workers, Mode: p.setup.Policy.Mode.String(),
		Total: t.total, Hours: t.hours,
	}
	for _, h := range r.Hours {
		begin, end := h.Begin, h.Begin.Add(time.Hour)
		if begin.Before(r.From) {
			begin = r.From
		}
		if end.After(r.To) {
			end = r.To
		}
		if d := end.Sub(begin).Seconds(); d > 0 {
			h.Busy = min(1, h.CPUSeconds/(d*r.CPUs))
		}
	}
	for i, c := range t.classes {
		if c.sum.Requests == 0 {
			continue
		}
		r.Classes = append(r.Classes, Class{Class: c.info.Name, Keys: c.seen, Key: c.sum, Top: c.top(topKeys)})
		r.Shares = append(r.Shares, c.proposal(c.info, t.cpus, i == 0))
	}
	return r
}
