package view

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tempomat/limiter"
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

// Panes returns the names of the panes.
func Panes() []string {
	return []string{"overview", "keys", "pages", "queue", "verdicts", "gate"}
}

// Document returns the path and the parameters of the admin API's document that a pane shows.
func (p Pane) Document() (path string, query url.Values) {
	path = [...]string{"/v1/overview", "/v1/buckets", "/v1/shapes", "/v1/queue", "/v1/recent", "/v1/gate"}[p]
	if p == PaneOverview || p == PaneGate {
		return path, nil
	}
	return path, url.Values{"limit": {strconv.Itoa(mostRows)}}
}

// mostRows is the number of rows that are requested, which is more than the tallest screens show.
const mostRows = 200

// table returns the table of the open pane, or nil if the pane has none.
func (m *Model) table() *Table {
	switch m.pane {
	case PaneKeys:
		return m.keys()
	case PanePages:
		return m.pages()
	case PaneQueue:
		return queue(&m.data.Queue)
	case PaneVerdicts:
		return verdicts(&m.data.Recent)
	default:
		return nil
	}
}

// orders are the columns by which the proxy can sort the keys, and the proxy's names for them. The proxy must sort
// the rows, because it sends only the first ones.
//
//nolint:gochecknoglobals // constants
var orders = [...][2]string{{"CPU", "cpu"}, {"req/s", "rate"}, {"level", "level"}, {"wait", "wait"}, {"last", "last"}}

// keys returns the table of a class's keys.
func (m *Model) keys() *Table {
	t := &Table{gap: 1, total: m.data.Buckets.Total, Columns: []Column{
		{Name: "CPU", Width: 6},
		{Name: "req/s", Width: 6, Drop: 2},
		{Name: "level", Width: 7, Drop: 1},
		{Name: "wait", Width: 6},
		{Name: "last", Width: 5, Drop: 4},
		{Name: "runs", Width: 4, Drop: 5},
		{Name: "waits", Width: 5, Drop: 3},
		{Name: "standing", Width: 8, Drop: 6},
		{Name: "key", Width: 18, Grows: true},
	}}
	t.Columns[m.order].Name += "*"
	for _, r := range m.data.Buckets.Rows {
		standing := ""
		if c := r.Client; c != nil {
			standing = fmt.Sprintf("%g", c.Standing)
			if !c.Known {
				standing += " new"
			}
		}
		row := t.add(Number(r.CPU), Number(r.Rate), Number(r.Level), Duration(r.Wait), Duration(r.Last),
			Count(r.Running), Count(r.Waiting), standing, r.ID)
		row.id, row.of = r.Class+" "+r.ID, r.ID
		if r.Level < 0 {
			row.style = Warning
		}
	}
	if all := m.data.Classes.Classes; len(all) > 0 {
		at := min(m.class, len(all)-1)
		t.note = fmt.Sprintf("class %s (%d of %d: left, right); each key may use %s CPUs", Text(all[at].Name), at+1, len(all), Number(all[at].CPUs))
	}
	return t
}

// pages returns the table of the pages that use the CPU.
func (m *Model) pages() *Table {
	t := &Table{gap: 1, total: len(m.data.Shapes.Rows), note: "pages by CPU use", Columns: []Column{
		{Name: "CPU", Width: 6},
		{Name: "part", Width: 5},
		{Name: "req/s", Width: 6, Drop: 4},
		{Name: "each", Width: 6, Drop: 5},
		{Name: "from", Width: 6, Drop: 3},
		{Name: "page", Width: 30, Grows: true},
		{Name: "parameter", Width: 14, Grows: true, Drop: 1},
		{Name: "group", Width: 14, Grows: true, Drop: 6},
		{Name: "network", Width: 16, Grows: true, Drop: 2},
	}}
	if s := m.data.Overview.Sampled; s > 0 && s < 1 {
		t.note += ", based on " + Percent(s, 1) + " of the requests"
	}
	whole := m.pagesCPU("")
	for _, s := range m.data.Shapes.Rows {
		row := t.add(Number(s.CPU), Percent(s.CPU, whole), Number(s.Rate), Duration(s.Mean), Count(s.Addresses), s.Shape,
			part(s.Parameters, s.CPU), part(groupsOf(&s), s.CPU), part(s.Networks, s.CPU))
		row.id, row.of = s.Shape, s.Shape
	}
	return t
}

// pagesCPU returns the CPU use to which a page's percentage refers: that of a group, or of all groups if group is
// empty. Pages are averaged over a shorter time than groups. While the use grows, the sum of the pages is therefore
// higher than the use of the group, and pagesCPU returns the sum.
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

// part returns the name of the most expensive part of a page, and its percentage of the page's cost.
func part(parts []api.PartRow, whole float64) string {
	if len(parts) == 0 {
		return ""
	}
	return Percent(parts[0].CPU, whole) + " " + parts[0].Name
}

// groupsOf returns the groups that use a page, the one with the highest use first.
func groupsOf(s *api.ShapeRow) (all []api.PartRow) {
	for _, name := range slices.Sorted(maps.Keys(s.Groups)) {
		all = append(all, api.PartRow{Name: name, CPU: s.Groups[name]})
	}
	slices.SortStableFunc(all, func(a, b api.PartRow) int { return cmp.Compare(b.CPU, a.CPU) })
	return all
}

// parts returns a text with the cost of a page by group, by parameter and by network.
func (m *Model) parts(s api.ShapeRow) func(width int) string {
	whole := m.pagesCPU("")
	return func(width int) string {
		var out strings.Builder
		fmt.Fprintf(&out, "%s CPUs (%s of all pages' use), %s requests/s, %s each, %s\n",
			Number(s.CPU), Percent(s.CPU, whole), Number(s.Rate), Duration(s.Mean), Addresses(s.Addresses))
		for _, of := range []struct {
			title string
			rows  []api.PartRow
		}{{"Groups that use it", groupsOf(&s)}, {"Most expensive parameters", s.Parameters}, {"Most expensive networks", s.Networks}} {
			t := NewTable("", "CPU", "of it", "req/s", "each", of.title)
			for _, p := range of.rows {
				rate, each := Number(p.Rate), Duration(p.Mean)
				if p.Rate == 0 { // groups have no rate
					rate, each = "", ""
				}
				t.Add(Number(p.CPU), Percent(p.CPU, s.CPU), rate, each, p.Name)
			}
			fmt.Fprintf(&out, "\n%s\n", strings.Join(t.Lines(width), "\n"))
		}
		return out.String()
	}
}

// queue returns the table of waiting requests.
func queue(reply *api.QueueReply) *Table {
	t := &Table{gap: 1, total: reply.Total, note: "guess: CPU-seconds (?: uncertain); before: number of requests that go first", Columns: []Column{
		{Name: "age", Width: 5},
		{Name: "guess", Width: 6, Drop: 3},
		{Name: "before", Width: 6, Drop: 4},
		{Name: "group", Width: 9, Grows: true, Drop: 5},
		{Name: "client", Width: 15, Grows: true},
		{Name: "agent", Width: 8, Grows: true, Drop: 6},
		{Name: "URL", Width: 20, Grows: true},
		{Name: "why", Width: 20, Grows: true, Drop: 2},
	}}
	t.addInstance(slices.ContainsFunc(reply.Rows, func(w api.WaiterRow) bool { return w.Instance != "" }))
	for _, w := range reply.Rows {
		guess, before := Number(w.Guess), Count(w.Before)
		if !w.Sure {
			guess += "?"
		}
		if w.Before < 0 {
			before = "?"
		}
		row := t.add(Duration(w.Age), guess, before, w.Group, w.Client, w.Agent, request(w.Method, w.Host, w.URL), w.Why, w.Instance)
		row.id, row.of, row.style = w.Instance+w.Client+" "+w.Method+" "+w.Host+" "+w.URL, w.Client, ageStyle(w.Age)
	}
	return t
}

// addInstance adds a column for the instance at which a request waits, if several instances were asked.
func (t *Table) addInstance(several bool) {
	if several {
		t.Columns = append(t.Columns, Column{Name: "instance", Width: 9, Grows: true})
	}
}

// longWait is the number of seconds above which a wait is highlighted.
const longWait = 10

func ageStyle(age float64) Style {
	if age >= longWait {
		return Warning
	}
	return Plain
}

// request names a request by its method, host and target. It omits GET.
func request(method, host, target string) string {
	return strings.TrimLeft(strings.TrimPrefix(method+" ", "GET ")+host+target, " ")
}

// verdicts returns the table of recent requests that were not served normally.
func verdicts(reply *api.RecentReply) *Table {
	t := &Table{gap: 1, total: len(reply.Rows), note: "refused, redirected, failed, or late; similar requests share a row", Columns: []Column{
		{Name: "last", Width: 8},
		{Name: "times", Width: 5},
		{Name: "ended", Width: 11, Grows: true},
		{Name: "waited", Width: 6, Drop: 2},
		{Name: "cost", Width: 6, Drop: 6},
		{Name: "reason", Width: 13, Grows: true},
		{Name: "group", Width: 9, Grows: true, Drop: 5},
		{Name: "client", Width: 15, Grows: true, Drop: 1},
		{Name: "agent", Width: 8, Grows: true, Drop: 7},
		{Name: "URL", Width: 16, Grows: true},
		{Name: "debt of", Width: 12, Grows: true, Drop: 8},
	}}
	t.addInstance(slices.ContainsFunc(reply.Rows, func(v api.VerdictRow) bool { return v.Instance != "" }))
	for _, v := range reply.Rows {
		ended, reason, debtor, client := v.Outcome, v.Reason, strings.TrimSpace(v.Class+" "+v.Key), v.Client
		if v.Status > 0 { // the client got an answer
			ended = fmt.Sprintf("%d %s", v.Status, v.Outcome)
		}
		if v.Shadow {
			reason += " (shadow)"
		}
		if v.Clients > 1 {
			client = Addresses(v.Clients)
		}
		row := t.add(Clock(v.At), Count(max(1, v.Times)), ended, Duration(v.Waited), Number(v.Cost), reason,
			v.Group, client, v.Agent, request(v.Method, v.Host, v.URL), debtor, v.Instance)
		row.id, row.of = fmt.Sprint(v.Instance, v.Group, v.Shape, v.Status, v.Outcome, reason, debtor), cmp.Or(v.ID, v.Client)
	}
	return t
}

// gateLines describes the workers, the CPUs and the queue in front of the backend.
func gateLines(g *limiter.GateState) []string {
	p := &Pairs{}
	if g.Workers > 0 {
		p.Add("at the backend", "%d of %d workers, by %s", g.Busy, g.Workers, g.WorkersBy)
		p.Add("not short", "%d of %d", g.LongBusy, g.LongMost)
	} else {
		p.Add("at the backend", "%d; the number of workers is unknown and counts as sufficient until connections wait", g.Busy)
		p.Add("not short", "%d", g.LongBusy)
	}
	p.Add("only holding", "%d", g.Holding)
	p.Add("orphans", "%d", g.Orphans)
	p.Add("room", "at most %d requests of one size or smaller compute at once", g.Room)
	p.Add("waiting", "%d", g.Queued)
	p.Add("rejected", "%d since the start, because the queue was full", g.Shed)
	use := "not measured"
	if g.Utilisation >= 0 {
		use = Percent(g.Utilisation, 1) + " of the CPUs"
	}
	p.Add("use", "%s", use)
	for _, s := range g.Sites {
		wait := 0.0
		if n := s.Ended + s.Refused; n > 0 {
			wait = s.Waited / float64(n)
		}
		p.Add("site "+s.Name, "share %g, %d running, %d waiting; since the start: %.1f CPU-s, a mean wait of %.2f s for %d requests, %d of them rejected",
			s.Share, s.Busy, s.Queued, s.CPU, wait, s.Ended+s.Refused, s.Refused)
	}
	return p.Lines()
}
