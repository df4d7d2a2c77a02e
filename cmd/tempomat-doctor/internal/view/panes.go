package view

import (
	"cmp"
	"fmt"
	"io"
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
		return queue(m.data.Queue), true
	case PaneVerdicts:
		return verdicts(m.data.Recent), true
	default:
		return table{}, false
	}
}

// keys is a class. The proxy sorts, because it sends only the first of many.
func (m *Model) keys() table {
	t := newTable(
		Column{Name: "CPU", Width: 6},
		Column{Name: "req/s", Width: 6, Must: 2},
		Column{Name: "level", Width: 7, Must: 1},
		Column{Name: "wait", Width: 6},
		Column{Name: "last", Width: 5, Must: 4},
		Column{Name: "runs", Width: 4, Must: 5},
		Column{Name: "waits", Width: 5, Must: 3},
		Column{Name: "standing", Width: 8, Must: 6},
		Column{Name: "key", Width: 18, Grows: true},
	)
	t.total, t.orders = m.data.Buckets.Total, []string{"cpu", "rate", "level", "wait", "last", "", "", "", ""}
	for _, r := range m.data.Buckets.Rows {
		standing, by := "", 0.0
		if c := r.Client; c != nil {
			standing, by = fmt.Sprintf("%g", c.Standing), c.Standing
			if !c.Known {
				standing += " new"
			}
		}
		t.rows = append(t.rows, row{
			id: r.Class + " " + r.ID, of: r.ID, style: debtStyle(r.Level),
			cells: []string{Number(r.CPU), Number(r.Rate), Number(r.Level), Duration(r.Wait), Duration(r.Last),
				Count(r.Running), Count(r.Waiting), standing, Text(r.ID)},
			by: []float64{r.CPU, r.Rate, -r.Level, r.Wait, -r.Last, float64(r.Running), float64(r.Waiting), by, 0},
		})
	}
	at, all := m.class, len(m.data.Classes.Classes)
	if all > 0 {
		c := m.data.Classes.Classes[min(at, all-1)]
		t.note = fmt.Sprintf("class %s (%d of %d: left, right), each may use %s CPUs", Text(c.Name), min(at, all-1)+1, all, Number(c.CPUs))
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
	t := newTable(
		Column{Name: "CPU", Width: 6},
		Column{Name: "part", Width: 5},
		Column{Name: "req/s", Width: 6, Must: 4},
		Column{Name: "each", Width: 6, Must: 5},
		Column{Name: "from", Width: 6, Must: 3},
		Column{Name: "page", Width: 30, Grows: true},
		Column{Name: "parameter", Width: 14, Grows: true, Must: 1},
		Column{Name: "group", Width: 14, Grows: true, Most: 16, Must: 6},
		Column{Name: "network", Width: 16, Grows: true, Most: 40, Must: 2},
	)
	t.total, t.note = len(m.data.Shapes.Rows), "where the CPU goes"+m.sampled()+"; parameter: the one that costs most"
	whole := m.pagesCPU("")
	for _, s := range m.data.Shapes.Rows {
		t.rows = append(t.rows, row{
			id: s.Shape, of: s.Shape,
			cells: []string{Number(s.CPU), Share(s.CPU, whole), Number(s.Rate), Duration(s.Mean),
				Count(s.Addresses), Text(s.Shape), part(s.Parameters, s.CPU), mostly(s.Groups, s.CPU), part(s.Networks, s.CPU)},
			by: []float64{s.CPU, s.CPU, s.Rate, s.Mean, float64(s.Addresses), 0, 0, 0, 0},
		})
	}
	return t
}

// pagesCPU is the CPU of which pages are parts: a group's or, "", all. Pages' use covers fewer
// seconds than groups' use: while it grows, pages add up to more.
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

// sampled notes which requests the pages are based on, if not on all.
func (m *Model) sampled() string {
	if s := m.data.Overview.Sampled; s > 0 && s < 1 {
		return ", by " + Percent(s, 1) + " of the requests"
	}
	return ""
}

// part is the most expensive part of a page, and how much of its cost that is.
func part(parts []api.PartRow, whole float64) string {
	if len(parts) == 0 {
		return ""
	}
	return Share(parts[0].CPU, whole) + " " + Text(parts[0].Name)
}

// mostly is the group that uses most of a page.
func mostly(groups map[string]float64, whole float64) string {
	if len(groups) == 0 {
		return ""
	}
	names := slices.Sorted(maps.Keys(groups))
	most := slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(groups[a], groups[b]) })
	return Share(groups[most], whole) + " " + Text(most)
}

// queue is the waiting requests.
func queue(reply api.QueueReply) table {
	t := newTable(
		Column{Name: "age", Width: 5},
		Column{Name: "guess", Width: 6, Must: 3},
		Column{Name: "before", Width: 6, Must: 4},
		Column{Name: "group", Width: 9, Grows: true, Most: 9, Must: 5},
		Column{Name: "client", Width: 15, Grows: true, Most: 40},
		Column{Name: "agent", Width: 8, Grows: true, Most: 16, Must: 6},
		Column{Name: "URL", Width: 20, Grows: true},
		Column{Name: "why", Width: 20, Grows: true, Must: 2},
	)
	if slices.ContainsFunc(reply.Rows, func(w api.WaiterRow) bool { return w.Instance != "" }) {
		t.Columns = append(t.Columns, instanceColumn())
	}
	t.total, t.note = reply.Total, "which requests wait, and for what; guess: CPU-seconds, with a ? if it is unknown yet"
	for _, w := range reply.Rows {
		guess, before := Number(w.Guess), Count(w.Before)
		if !w.Sure {
			guess += "?"
		}
		if w.Before < 0 {
			before = "?"
		}
		t.rows = append(t.rows, row{
			id: w.Instance + w.Client + " " + w.Method + " " + w.Host + " " + w.URL, of: w.Client, style: ageStyle(w.Age),
			cells: []string{Duration(w.Age), guess, before, Text(w.Group), Text(w.Client), Text(w.Agent),
				request(w.Method, w.Host, w.URL), Text(w.Why), Text(w.Instance)}[:len(t.Columns)],
			by: []float64{w.Age, w.Guess, float64(-w.Before), 0, 0, 0, 0, 0, 0},
		})
	}
	return t
}

// instanceColumn is where a request is, if several instances are asked.
func instanceColumn() Column {
	return Column{Name: "instance", Width: 9, Grows: true, Most: 24}
}

// longWait is the number of seconds from which a wait is shown as bad.
const longWait = 10

func ageStyle(age float64) Style {
	if age >= longWait {
		return Warning
	}
	return Plain
}

// request is what was asked for; GET goes without saying.
func request(method, host, target string) string {
	if method == "GET" {
		method = ""
	}
	return Text(strings.TrimLeft(method+" "+host+target, " "))
}

// verdicts is what became of the last that had it bad.
func verdicts(reply api.RecentReply) table {
	t := newTable(
		Column{Name: "last", Width: 8},
		Column{Name: "times", Width: 5},
		Column{Name: "status", Width: 6},
		Column{Name: "waited", Width: 6, Must: 2},
		Column{Name: "cost", Width: 6, Must: 6},
		Column{Name: "outcome", Width: 8, Grows: true, Most: 12, Must: 7},
		Column{Name: "reason", Width: 11, Grows: true, Most: 24},
		Column{Name: "group", Width: 9, Grows: true, Most: 9, Must: 5},
		Column{Name: "client", Width: 15, Grows: true, Most: 40, Must: 1},
		Column{Name: "agent", Width: 8, Grows: true, Most: 16, Must: 8},
		Column{Name: "URL", Width: 18, Grows: true},
		Column{Name: "debt of", Width: 12, Grows: true, Most: 50, Must: 9},
	)
	if slices.ContainsFunc(reply.Rows, func(v api.VerdictRow) bool { return v.Instance != "" }) {
		t.Columns = append(t.Columns, instanceColumn())
	}
	t.total, t.note = len(reply.Rows), "recently refused, redirected, failed, or late; those alike in one row"
	for _, v := range reply.Rows {
		reason, debtor := v.Reason, strings.TrimSpace(v.Class+" "+v.Key)
		if v.Shadow {
			reason += " (shadow)"
		}
		times, client := max(1, v.Times), v.Client
		if v.Clients > 1 {
			client = Count(v.Clients) + " addresses"
		}
		of := v.ID
		if of == "" {
			of = v.Client
		}
		t.rows = append(t.rows, row{
			id: fmt.Sprint(v.Instance, v.Group, v.Shape, v.Status, v.Outcome, reason, debtor), of: of,
			cells: []string{Clock(v.At), Count(times), fmt.Sprint(v.Status), Duration(v.Waited), Number(v.Cost), Text(v.Outcome), Text(reason),
				Text(v.Group), Text(client), Text(v.Agent), request(v.Method, v.Host, v.URL), Text(debtor), Text(v.Instance)}[:len(t.Columns)],
			by: []float64{v.At, float64(times), float64(v.Status), v.Waited, v.Cost, 0, 0, 0, 0, 0, 0, 0, 0},
		})
	}
	return t
}

// gateLines is the queue in front of the backend as its pane shows it.
func gateLines(g limiter.GateState) []string {
	p := &Pairs{}
	use := "not measured"
	if g.Utilisation >= 0 {
		use = fmt.Sprintf("%.0f %% of the CPUs", 100*g.Utilisation)
	}
	if g.Workers > 0 {
		p.Add("at the backend", "%d of %d workers, by %s", g.Busy, g.Workers, g.WorkersBy)
		p.Add("not short", "%d of %d", g.LongBusy, g.LongMost)
	} else {
		p.Add("at the backend", "%d of any number, by %s", g.Busy, g.WorkersBy)
		p.Add("not short", "%d", g.LongBusy)
	}
	p.Add("of those, only holding", "%d", g.Holding)
	p.Add("orphans", "%d", g.Orphans)
	p.Add("room", "for %d of a size, or shorter", g.Room)
	p.Add("size", "25ms  0.1s  0.4s  1.6s  6.4s 25.6s  more")
	p.Add("computing", "%s", bySize(g.Computing[:]))
	p.Add("of those, ahead", "%s", bySize(g.Ahead[:]))
	p.Add("holding workers", "%s", bySize(g.Held[:]))
	p.Add("probes", "%d", g.Probes)
	p.Add("waiting", "%d", g.Queued)
	p.Add("shed", "%d since the start", g.Shed)
	p.Add("use", "%s", use)
	p.Add("clock", "%.1f CPU-s by share", g.Clock)
	for _, s := range g.Sites {
		addSite(p, s)
	}
	return p.Lines()
}

// addSite shows a site of a shared host.
func addSite(p *Pairs, s limiter.SiteState) {
	wait := 0.0
	if n := s.Ended + s.Refused; n > 0 {
		wait = s.Waited / float64(n)
	}
	line := fmt.Sprintf("share %g, %d running, %d waiting, %.1f CPU-s and %.2f s of waiting for each of %d requests since the start",
		s.Share, s.Busy, s.Queued, s.CPU, wait, s.Ended+s.Refused)
	if s.Refused > 0 {
		line += fmt.Sprintf(", %d waited in vain", s.Refused)
	}
	p.Add("site "+s.Name, "%s", line)
}

// bySize is the numbers of requests of each size, the shortest first.
func bySize(counts []int) string {
	var b strings.Builder
	for _, n := range counts {
		fmt.Fprintf(&b, "%4d  ", n)
	}
	return strings.TrimRight(b.String(), " ")
}

// row is one of a table. Its cells are harmless already.
type row struct {
	id    string    // what tells it from the others
	of    string    // what explain is asked for; "": there is nothing to explain
	cells []string  // by column
	by    []float64 // what it is sorted by, by column; a text sorts by its letters
	style Style
}

// table is what a pane shows.
type table struct {
	Table
	rows   []row
	orders []string // the proxy's sort orders, by column; nil: rows are sorted here
	total  int      // rows that there are; the proxy tells the first of them
	note   string   // what is to know of all of it
}

func newTable(columns ...Column) table {
	return table{Table: Table{Columns: columns, Gap: 1}}
}

// sorted orders the rows by a column: the greatest number, or the first text, comes first.
func (t *table) sorted(by int, reverse bool) {
	slices.SortStableFunc(t.rows, func(a, b row) int {
		c := cmp.Compare(b.by[by], a.by[by])
		if t.Columns[by].Grows {
			c = cmp.Compare(a.cells[by], b.cells[by])
		}
		if reverse {
			return -c
		}
		return c
	})
}

// filtered leaves the rows that have a text in one of their cells, in capitals or not.
func (t *table) filtered(text string) {
	if text == "" {
		return
	}
	text = strings.ToLower(text)
	t.rows = slices.DeleteFunc(t.rows, func(r row) bool {
		return !strings.Contains(strings.ToLower(strings.Join(r.cells, "\x00")), text)
	})
}

// lines are the names of the columns and the rows.
func (t *table) lines(width int) []string {
	for _, r := range t.rows {
		t.Rows = append(t.Rows, r.cells)
	}
	return t.Lines(width)
}

// print prints the table behind an empty line.
func (t *table) print(w io.Writer, title string, width int) {
	fmt.Fprintf(w, "\n|%s\n%s\n", title, strings.Join(t.lines(width), "\n"))
}

// draw draws the names of the columns and the rows into the lines from y up to end. chosen
// is the row that is marked, -1: none; sorted the column to point at.
func (t *table) draw(f *Frame, y, end, chosen, sorted int) {
	t.Columns = slices.Clone(t.Columns)
	if sorted >= 0 {
		t.Columns[sorted].Name += "*"
	}
	lines := t.lines(f.Width)
	f.line(y, Strong, lines[0])
	y++
	for i := max(0, chosen-(end-y)+1); i < len(t.rows) && y < end; i++ {
		if i == chosen {
			f.line(y, Marked, lines[1+i])
		} else {
			f.put(0, y, f.Width, t.rows[i].style, lines[1+i])
		}
		y++
	}
}
