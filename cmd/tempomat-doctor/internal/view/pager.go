package view

import (
	"fmt"
	"strings"

	"tempomat/proxy/admin/api"
)

// pager shows a text over the panes.
type pager struct {
	title string
	lines func() []string // harmless already; they are wrapped
	first int             // line that is shown at the top
	of    string          // what it explains
	asked bool            // an explanation is under way
}

// turn does what keys mean in the pager.
func (m *Model) turn(key string) Effect {
	p := m.pager
	switch key {
	case "q", "esc", "left", "backspace":
		m.pager = nil
		return Effect{}
	case "e":
		if p.of != "" {
			return m.explain(p.of)
		}
	case " ":
		key = "pgdn"
	}
	lines, _ := step(key, m.pagerRows())
	p.first += lines
	p.first = max(0, min(p.first, len(m.pagerLines())-m.pagerRows()))
	return Effect{}
}

// pagerRows is how many lines of the text there is room for.
func (m *Model) pagerRows() int { return m.rows() + 2 } // the two above a table's rows

// Explained takes the answer to an Explain. One that no request waits for any more is dropped.
func (m *Model) Explained(of string, r api.ExplainReply, err error) {
	if m.pager == nil || m.pager.of != of || !m.pager.asked {
		return
	}
	m.pager.lines = func() []string { return strings.Split(Explanation(&r, m.width), "\n") }
	if err != nil {
		m.pager.lines = func() []string { return []string{"No explanation: " + Text(err.Error())} }
	}
}

// pageLines are the parts of a page: its parameters, and the clients that ask for it.
func (m *Model) pageLines(shape string) []string {
	for _, s := range m.data.Shapes.Rows {
		if s.Shape != shape {
			continue
		}
		lines := []string{fmt.Sprintf("%s CPUs (%s of all), %s requests/s of %s each, from %s addresses",
			Number(s.CPU), Share(s.CPU, m.pagesCPU("")), Number(s.Rate), Duration(s.Mean), Count(s.Addresses))}
		var groups []api.PartRow
		for _, g := range m.data.Overview.Groups {
			if cpu := s.Groups[g.Name]; cpu > 0 {
				groups = append(groups, api.PartRow{Name: g.Name, CPU: cpu})
			}
		}
		for _, parts := range []struct {
			title string
			rows  []api.PartRow
		}{{"Groups that use it", groups}, {"Parameters that cost most", s.Parameters}, {"Networks that it costs most for", s.Networks}} {
			t := NewTable("", "CPU", "of it", "req/s", "each", parts.title)
			for _, p := range parts.rows {
				rate, each := Number(p.Rate), Duration(p.Mean)
				if p.Rate == 0 { // of groups that is not told
					rate, each = "", ""
				}
				t.Add(Number(p.CPU), Share(p.CPU, s.CPU), rate, each, p.Name)
			}
			lines = append(append(lines, ""), t.Lines(0)...)
		}
		return append(lines, "", "e: explain the page in words")
	}
	return []string{"This page is no longer among the most expensive ones."}
}

// pagerLines are the lines of the pager, wrapped to the screen.
func (m *Model) pagerLines() (out []string) {
	for _, line := range m.pager.lines() {
		out = append(out, Wrap(line, m.width)...)
	}
	return out
}

func helpLines() []string {
	return []string{
		"Tab, Shift-Tab, 1 to 6   the panes: overview, keys, pages, queue, verdicts, gate",
		"up, down, j, k           the row above, below; also PgUp, PgDn, Home, End",
		"Enter                    open it: an explanation, or the parts of a page",
		"e                        explain the row in words",
		"left, right              the previous, next class (keys)",
		"s, S                     sort by the next column; reverse",
		"/                        show only rows with a text; Esc: show all",
		"p, Space                 pause; continue",
		"Ctrl-L                   redraw",
		"?                        this",
		"q, Ctrl-C                quit; in a text like this one: back",
		"",
		"The bar has a letter for each group: known, newcomers, strangers, robots, exempt;",
		"w is wasted: clients disconnected before the answer. The whole bar is all CPUs.",
		"CPU is in CPU-seconds per second: 2.00 is two cores. A level below 0 is a debt.",
		"For what to look at first, see docs/doctor.md.",
	}
}
