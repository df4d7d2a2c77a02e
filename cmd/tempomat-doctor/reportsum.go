package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tempomat/proxy/admin/api"
)

// mostReported is how many rows of each kind a report has.
const mostReported = 50

// The documents of a report. Times are Unix times in seconds, CPU is in CPU-seconds.
type (
	// report is who used the server in some hours.
	report struct {
		Version int           `json:"version"`
		From    float64       `json:"from"` // the beginning of the first hour
		To      float64       `json:"to"`   // the end of the last one, which still runs
		Since   float64       `json:"since"`
		Proxies int           `json:"proxies"`
		Groups  []reportRow   `json:"groups"`  // known, newcomers, strangers, robots, exempt
		Classes []reportClass `json:"classes"` // in configured order
		Shapes  reportTable   `json:"shapes"`
		URLs    reportTable   `json:"urls"`
		ByHour  []reportHour  `json:"byHour"` // all from From to To
		reportTotals
	}
	// reportTotals is what all requests together did.
	reportTotals struct {
		CPU        float64 `json:"cpu"`
		Wasted     float64 `json:"wasted"`
		Requests   uint64  `json:"requests"`
		Refused    uint64  `json:"refused"`
		Redirected uint64  `json:"redirected"`
	}
	// reportHour is an hour. What is not known is all 0.
	reportHour struct {
		At     float64   `json:"at"`
		Known  bool      `json:"known"`
		Groups []float64 `json:"groups"` // CPU, in the order of the report's
		P95    []float64 `json:"p95"`    // of each group; of several proxies, that of the slowest
		reportTotals
	}
	// reportClass is the keys of a class that cost most.
	reportClass struct {
		Class string `json:"class"`
		reportTable
	}
	// reportTable is what cost most, by what is certain, and what all others cost.
	reportTable struct {
		Rows   []reportRow `json:"rows"`
		Others float64     `json:"others"`
	}
	// reportRow is what a part cost, at least. In hours in which it was none of the dearest
	// it may have cost something, which is among the others; so may Error of what it is
	// thought to have cost.
	reportRow struct {
		Name     string  `json:"name"`
		CPU      float64 `json:"cpu"`
		Error    float64 `json:"error"`
		Part     float64 `json:"part"` // of all CPU, 0 to 1
		Requests uint64  `json:"requests"`
		P95      float64 `json:"p95,omitempty"`   // of groups: in the slowest hour, in seconds
		P95At    float64 `json:"p95At,omitempty"` // that hour
	}
)

// adder adds rows up by name, in the order in which they came.
type adder struct {
	rows  []*reportRow
	names map[string]*reportRow
}

func (a *adder) add(p api.HistoryPart, at float64) {
	row := a.names[p.Name]
	if row == nil {
		if a.names == nil {
			a.names = make(map[string]*reportRow)
		}
		row = &reportRow{Name: p.Name}
		a.names[p.Name] = row
		a.rows = append(a.rows, row)
	}
	row.CPU += max(0, p.CPU-p.Error)
	row.Error += p.Error
	row.Requests += p.Requests
	if p.P95 > row.P95 {
		row.P95, row.P95At = p.P95, at
	}
}

// all returns the rows as they came.
func (a *adder) all(total float64) []reportRow {
	rows := make([]reportRow, 0, len(a.rows))
	for _, r := range a.rows {
		if total > 0 {
			r.Part = r.CPU / total
		}
		rows = append(rows, *r)
	}
	return rows
}

// table returns the dearest rows.
func (a *adder) table(total float64) reportTable {
	t := reportTable{Rows: a.all(total)}
	slices.SortFunc(t.Rows, func(b, c reportRow) int {
		return cmp.Or(cmp.Compare(c.CPU, b.CPU), cmp.Compare(c.Requests, b.Requests), strings.Compare(b.Name, c.Name))
	})
	t.Rows = t.Rows[:min(len(t.Rows), mostReported)]
	t.Others = total
	for _, r := range t.Rows {
		t.Others -= r.CPU
	}
	t.Others = max(0, t.Others)
	return t
}

// summing is a report in the making.
type summing struct {
	report                report
	groups, shapes, pages adder
	classes               []string
	keys                  map[string]*adder
}

// sum adds up what proxies told of their last hours; nil if none of them told anything.
func sum(replies []api.HistoryReply, hours int) *report {
	s := summing{keys: make(map[string]*adder)}
	r := &s.report
	r.Version, r.Proxies = api.Version, len(replies)
	for _, reply := range replies {
		if n := len(reply.Hours); n > 0 {
			r.To = max(r.To, reply.Hours[n-1].At+time.Hour.Seconds())
			if r.Since == 0 || reply.Since < r.Since {
				r.Since = reply.Since
			}
		}
	}
	if r.To == 0 {
		return nil
	}
	r.From = r.To - float64(hours)*time.Hour.Seconds()
	for i := range hours {
		r.ByHour = append(r.ByHour, reportHour{At: r.From + float64(i)*time.Hour.Seconds()})
	}
	for _, reply := range replies {
		for _, row := range reply.Hours {
			if i := int((row.At - r.From) / time.Hour.Seconds()); row.At >= r.From && i < hours {
				s.add(row, &r.ByHour[i])
			}
		}
	}
	r.Groups = s.groups.all(r.CPU)
	r.Shapes, r.URLs = s.shapes.table(r.CPU), s.pages.table(r.CPU)
	for _, name := range s.classes {
		r.Classes = append(r.Classes, reportClass{name, s.keys[name].table(r.CPU)})
	}
	for i := range r.ByHour {
		none := make([]float64, len(r.Groups)-len(r.ByHour[i].Groups))
		r.ByHour[i].Groups = append(r.ByHour[i].Groups, none...)
		r.ByHour[i].P95 = append(r.ByHour[i].P95, none...)
	}
	return r
}

// add adds an hour up.
func (s *summing) add(row api.HourRow, to *reportHour) {
	to.Known = true
	to.add(row)
	s.report.add(row)
	for i, g := range row.Groups {
		s.groups.add(g, row.At)
		if i == len(to.Groups) {
			to.Groups, to.P95 = append(to.Groups, 0), append(to.P95, 0)
		}
		to.Groups[i] += g.CPU
		to.P95[i] = max(to.P95[i], g.P95)
	}
	for _, p := range row.Shapes {
		s.shapes.add(p, row.At)
	}
	for _, p := range row.URLs {
		s.pages.add(p, row.At)
	}
	for _, c := range row.Classes {
		if s.keys[c.Class] == nil {
			s.keys[c.Class] = &adder{}
			s.classes = append(s.classes, c.Class)
		}
		for _, p := range c.Keys {
			s.keys[c.Class].add(p, row.At)
		}
	}
}

func (t *reportTotals) add(row api.HourRow) {
	t.CPU += row.CPU
	t.Wasted += row.Wasted
	t.Requests += row.Requests
	t.Refused += row.Refused
	t.Redirected += row.Redirected
}
