package top

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tempomat/cmd/tempomat-doctor/internal/figures"
	"tempomat/proxy/admin/api"
)

// Pane is one of the views below the header.
type Pane int

// The panes, in the order of their keys.
const (
	PaneOverview Pane = iota
	PaneKeys
	PanePages
	PaneQueue
	PaneVerdicts
	PaneGate
	panes
)

// Panes are the names of the panes.
func Panes() []string {
	return []string{"overview", "keys", "pages", "queue", "verdicts", "gate"}
}

// Document is what the admin API has of a pane.
func (p Pane) Document() (path string, query url.Values) {
	limit := url.Values{"limit": {strconv.Itoa(mostRows)}}
	switch p {
	case PaneKeys:
		return "/v1/buckets", limit
	case PanePages:
		return "/v1/shapes", limit
	case PaneQueue:
		return "/v1/queue", limit
	case PaneVerdicts:
		return "/v1/recent", limit
	case PaneGate:
		return "/v1/gate", nil
	default:
		return "/v1/overview", nil
	}
}

// table is what the pane shows, if it is a table.
func (m *Model) table(p Pane) (t table, ok bool) {
	switch p {
	case PaneKeys:
		return m.keys(), true
	case PanePages:
		return m.pages(), true
	case PaneQueue:
		return m.queue(), true
	case PaneVerdicts:
		return m.verdicts(), true
	default:
		return table{}, false
	}
}

// keys is a class. The proxy sorts, as it tells only the first of many.
func (m *Model) keys() table {
	t := table{total: m.data.Buckets.Total, columns: []column{
		{name: "CPU", width: 6, order: "cpu"},
		{name: "req/s", width: 6, order: "rate", must: 2},
		{name: "level", width: 7, order: "level", must: 1},
		{name: "wait", width: 6, order: "wait"},
		{name: "last", width: 5, order: "last", must: 4},
		{name: "runs", width: 4, must: 5},
		{name: "waits", width: 5, must: 3},
		{name: "standing", width: 8, must: 6},
		{name: "key", width: 18, grows: true},
	}}
	for _, r := range m.data.Buckets.Rows {
		standing, by := "", 0.0
		if c := r.Client; c != nil {
			standing, by = fmt.Sprintf("%g", c.Standing), c.Standing
			if !c.Known {
				standing += " new"
			}
		}
		waits := r.Waiting
		if c := r.Client; c != nil {
			waits += c.Light + c.Heavy + c.Waits
		}
		t.rows = append(t.rows, row{
			id: r.Class + " " + r.ID, of: r.ID, style: debtStyle(r.Level),
			cells: []string{figures.Number(r.CPU), figures.Number(r.Rate), figures.Number(r.Level), figures.Duration(r.Wait), figures.Duration(r.Last),
				figures.Count(r.Running), figures.Count(waits), standing, m.text(r.ID)},
			by: []float64{r.CPU, r.Rate, -r.Level, r.Wait, -r.Last, float64(r.Running), float64(waits), by, 0},
		})
	}
	at, all := m.class, len(m.data.Classes.Classes)
	if all > 0 {
		c := m.data.Classes.Classes[min(at, all-1)]
		t.note = fmt.Sprintf("class %s (%d of %d: left, right), each may use %s CPUs", m.text(c.Name), min(at, all-1)+1, all, figures.Number(c.CPUs))
	}
	return t
}

func debtStyle(level float64) Style {
	if level < 0 {
		return Warning
	}
	return Plain
}

// pages is where the CPU goes.
func (m *Model) pages() table {
	t := table{total: len(m.data.Shapes.Rows), columns: []column{
		{name: "CPU", width: 6},
		{name: "part", width: 5},
		{name: "req/s", width: 6, must: 4},
		{name: "each", width: 6, must: 5},
		{name: "from", width: 6, must: 3},
		{name: "page", width: 30, grows: true},
		{name: "dear by", width: 14, grows: true, must: 1},
		{name: "group", width: 14, grows: true, most: 16, must: 6},
		{name: "network", width: 16, grows: true, most: 40, must: 2},
	}, note: "where the CPU goes" + m.sampled() + "; dear by: the parameter that costs most"}
	whole := m.pagesCPU("")
	for _, s := range m.data.Shapes.Rows {
		t.rows = append(t.rows, row{
			id: s.Shape, of: s.Shape,
			cells: []string{figures.Number(s.CPU), figures.Share(s.CPU, whole), figures.Number(s.Rate), figures.Duration(s.Mean),
				figures.Count(s.Addresses), m.text(s.Shape), m.part(s.Parameters, s.CPU), m.mostly(s.Groups, s.CPU), m.part(s.Networks, s.CPU)},
			by: []float64{s.CPU, s.CPU, s.Rate, s.Mean, float64(s.Addresses), 0, 0, 0, 0},
		})
	}
	return t
}

// pagesCPU is the CPU that parts of pages are told of, of a group or, "", of all. What pages
// use is more of the last seconds than what groups do: while it grows, pages add up to more.
func (m *Model) pagesCPU(group string) float64 {
	whole, pages := m.data.Overview.CPU, 0.0
	for _, g := range m.data.Overview.Groups {
		if g.Name == group {
			whole = g.CPU
		}
	}
	for _, s := range m.data.Shapes.Rows {
		if group == "" {
			pages += s.CPU
		} else {
			pages += s.Groups[group]
		}
	}
	return max(whole, pages)
}

// sampled says what the pages are made of, if that is not all requests.
func (m *Model) sampled() string {
	if s := m.data.Overview.Sampled; s > 0 && s < 1 {
		return ", by " + figures.Percent(s, 1) + " of the requests"
	}
	return ""
}

// part is the dearest part of a page, and how much of its cost that is.
func (m *Model) part(parts []api.PartRow, whole float64) string {
	if len(parts) == 0 {
		return ""
	}
	return figures.Share(parts[0].CPU, whole) + " " + m.text(parts[0].Name)
}

// mostly is the group that uses most of a page.
func (m *Model) mostly(groups map[string]float64, whole float64) string {
	if len(groups) == 0 {
		return ""
	}
	names := slices.Sorted(maps.Keys(groups))
	most := slices.MaxFunc(names, func(a, b string) int { return compare(groups[a], groups[b]) })
	return figures.Share(groups[most], whole) + " " + m.text(most)
}

// queue is who waits.
func (m *Model) queue() table {
	t := table{total: m.data.Queue.Total, columns: []column{
		{name: "age", width: 5},
		{name: "guess", width: 6, must: 3},
		{name: "before", width: 6, must: 4},
		{name: "group", width: 9, grows: true, most: 9, must: 5},
		{name: "client", width: 15, grows: true, most: 40},
		{name: "agent", width: 8, grows: true, most: 16, must: 6},
		{name: "URL", width: 20, grows: true},
		{name: "why", width: 20, grows: true, must: 2},
	}, note: "who waits, and for what; guess: CPU-seconds, with a ? if nobody knows yet"}
	for _, w := range m.data.Queue.Rows {
		guess, before := figures.Number(w.Guess), figures.Count(w.Before)
		if !w.Sure {
			guess += "?"
		}
		if w.Before < 0 {
			before = "?"
		}
		t.rows = append(t.rows, row{
			id: w.Client + " " + w.Method + " " + w.Host + " " + w.URL, of: w.Client, style: ageStyle(w.Age),
			cells: []string{figures.Duration(w.Age), guess, before, m.text(w.Group), m.text(w.Client), m.text(w.Agent),
				m.request(w.Method, w.Host, w.URL), m.text(w.Why)},
			by: []float64{w.Age, w.Guess, float64(-w.Before), 0, 0, 0, 0, 0},
		})
	}
	return t
}

// longWait is the seconds from which a wait is shown as bad.
const longWait = 10

func ageStyle(age float64) Style {
	if age >= longWait {
		return Warning
	}
	return Plain
}

// request is what was asked for; GET goes without saying.
func (m *Model) request(method, host, target string) string {
	if method == "GET" {
		method = ""
	}
	return m.text(strings.TrimLeft(method+" "+host+target, " "))
}

// verdicts is what became of the last that had it bad.
func (m *Model) verdicts() table {
	t := table{total: len(m.data.Recent.Rows), columns: []column{
		{name: "last", width: 8},
		{name: "times", width: 5},
		{name: "status", width: 6},
		{name: "waited", width: 6, must: 2},
		{name: "cost", width: 6, must: 6},
		{name: "outcome", width: 8, grows: true, most: 12, must: 7},
		{name: "reason", width: 11, grows: true, most: 24},
		{name: "group", width: 9, grows: true, most: 9, must: 5},
		{name: "client", width: 15, grows: true, most: 40, must: 1},
		{name: "agent", width: 8, grows: true, most: 16, must: 8},
		{name: "URL", width: 18, grows: true},
		{name: "debt of", width: 12, grows: true, most: 50, must: 9},
	}, note: "recently refused, redirected, failed, or late; those alike in one row"}
	for _, v := range m.data.Recent.Rows {
		reason, debtor := v.Reason, strings.TrimSpace(v.Class+" "+v.Key)
		if v.Shadow {
			reason += " (shadow)"
		}
		times, client := max(1, v.Times), v.Client
		if v.Clients > 1 {
			client = figures.Count(v.Clients) + " addresses"
		}
		of := v.ID
		if of == "" {
			of = v.Client
		}
		t.rows = append(t.rows, row{
			id: fmt.Sprint(v.Group, v.Shape, v.Status, v.Outcome, reason, debtor), of: of,
			cells: []string{clock(v.At), figures.Count(times), fmt.Sprint(v.Status), figures.Duration(v.Waited), figures.Number(v.Cost), m.text(v.Outcome), m.text(reason),
				m.text(v.Group), m.text(client), m.text(v.Agent), m.request(v.Method, v.Host, v.URL), m.text(debtor)},
			by: []float64{v.At, float64(times), float64(v.Status), v.Waited, v.Cost, 0, 0, 0, 0, 0, 0, 0},
		})
	}
	return t
}

// clock is a time of the day, of UTC as in the logs.
func clock(unix float64) string {
	return time.UnixMilli(int64(unix * 1000)).UTC().Format("15:04:05")
}
