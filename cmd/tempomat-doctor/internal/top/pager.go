package top

import (
	"fmt"
	"strings"

	"tempomat/cmd/tempomat-doctor/internal/figures"
	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/proxy/admin/api"
)

// pager shows a text over the panes.
type pager struct {
	title string
	lines []string // harmless already
	first int      // line that is shown at the top
	of    string   // what it explains
	page  string   // the page whose parts it shows, live; "": none
}

// turn does what keys mean in the pager.
func (m *Model) turn(key string) Effect {
	p := m.pager
	switch key {
	case "q", "esc", "left", "backspace":
		m.pager = nil
		return Effect{}
	case "up", "k":
		p.first--
	case "down", "j", "enter":
		p.first++
	case "pgup", "b":
		p.first -= m.pagerRows()
	case "pgdn", " ":
		p.first += m.pagerRows()
	case "home", "g":
		p.first = 0
	case "end", "G":
		p.first = len(m.pagerLines())
	case "e":
		if p.of != "" {
			return m.explain(p.of)
		}
	}
	p.first = max(0, min(p.first, len(m.pagerLines())-m.pagerRows()))
	return Effect{}
}

// pagerRows is how many lines of the text there is room for.
func (m *Model) pagerRows() int { return m.rows() + 2 } // the two above a table's rows

// Explained takes the answer to an Explain. One that nobody waits for any more is dropped.
func (m *Model) Explained(of string, r api.ExplainReply, err error) {
	if m.pager == nil || m.pager.of != of || m.pager.page != "" {
		return
	}
	if err != nil {
		m.pager.lines = []string{"No explanation: " + m.text(err.Error())}
		return
	}
	m.pager.lines = m.explainLines(r)
}

// mostValue is how wide a value may be before the meaning of the others moves for it.
const mostValue = 24

func (m *Model) explainLines(r api.ExplainReply) []string {
	lines := []string{m.text(r.Kind) + " " + m.text(r.Of), "", m.text(r.Summary)}
	if len(r.Advice) > 0 {
		lines = append(lines, "", "What would change it")
	}
	for _, a := range r.Advice {
		lines = append(lines, "  "+m.text(a))
	}
	for _, s := range r.Sections {
		lines = append(lines, "", m.text(s.Title))
		name, value := 0, 0
		for _, f := range s.Facts {
			name = max(name, harmless.Width(m.text(f.Name)))
			value = max(value, min(harmless.Width(m.text(f.Value)), mostValue))
		}
		for _, f := range s.Facts {
			line := "  " + pad(m.text(f.Name), name) + "  " + pad(m.text(f.Value), value) + "  " + m.text(f.Means)
			lines = append(lines, strings.TrimRight(line, " "))
		}
	}
	if len(r.Waiting) > 0 {
		lines = append(lines, "", fmt.Sprintf("Waiting: %d; the first %d", max(r.Waits, len(r.Waiting)), len(r.Waiting)))
	}
	for _, w := range r.Waiting {
		lines = append(lines, fmt.Sprintf("  %6s  %s  %s", figures.Duration(w.Age), m.request(w.Method, w.Host, w.URL), m.text(w.Why)))
	}
	if len(r.Recent) > 0 {
		lines = append(lines, "", "Recently, requests that ended alike in one row")
	}
	for _, v := range r.Recent {
		lines = append(lines, fmt.Sprintf("  %s  %dx %d %s, %s: %s", clock(v.At), max(1, v.Times), v.Status, m.text(v.Outcome), m.text(v.Reason), m.request(v.Method, v.Host, v.URL)))
	}
	return lines
}

// pageLines are the parts of a page: its parameters and who asks for it.
func (m *Model) pageLines(shape string) []string {
	for _, s := range m.data.Shapes.Rows {
		if s.Shape != shape {
			continue
		}
		lines := []string{
			fmt.Sprintf("%s CPUs (%s of all), %s requests/s of %s each, from %s addresses",
				figures.Number(s.CPU), figures.Share(s.CPU, m.pagesCPU("")), figures.Number(s.Rate), figures.Duration(s.Mean), figures.Count(s.Addresses)),
			"", "Who uses it", partHead,
		}
		for _, g := range m.data.Overview.Groups {
			if cpu := s.Groups[g.Name]; cpu > 0 {
				lines = append(lines, fmt.Sprintf("%7s %7s %7s %7s  %s", figures.Number(cpu), figures.Share(cpu, s.CPU), "", "", m.text(g.Name)))
			}
		}
		lines = append(lines, "", "Parameters that cost most", partHead)
		lines = append(lines, m.partLines(s.Parameters, s.CPU)...)
		lines = append(lines, "", "Networks that it costs most for", partHead)
		lines = append(lines, m.partLines(s.Networks, s.CPU)...)
		return append(lines, "", "e: what is known of the page, in words")
	}
	return []string{"The page is no longer among those that cost most."}
}

const partHead = "    CPU    of it   req/s    each"

func (m *Model) partLines(parts []api.PartRow, whole float64) (lines []string) {
	for _, p := range parts {
		lines = append(lines, fmt.Sprintf("%7s %7s %7s %7s  %s", figures.Number(p.CPU), figures.Share(p.CPU, whole), figures.Number(p.Rate), figures.Duration(p.Mean), m.text(p.Name)))
	}
	if len(parts) == 0 {
		lines = append(lines, "      0")
	}
	return lines
}

// pagerLines are the lines of the pager, as the screen has room for them.
func (m *Model) pagerLines() (out []string) {
	lines := m.pager.lines
	if m.pager.page != "" {
		lines = m.pageLines(m.pager.page)
	}
	for _, line := range lines {
		out = append(out, wrap(line, m.width)...)
	}
	return out
}

// pad fills a text up to a width.
func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-harmless.Width(s)))
}

// wrap breaks a line at spaces; what follows is set in as deep as the line itself, and two
// columns more.
func wrap(line string, width int) (lines []string) {
	if harmless.Width(line) <= width || width < 20 {
		return []string{line}
	}
	deep := len(line) - len(strings.TrimLeft(line, " "))
	now := strings.Repeat(" ", min(deep, width/2))
	after := now + "  "
	empty := true // nothing stands on the line yet
	for _, word := range strings.SplitAfter(line[deep:], " ") {
		bare := strings.TrimRight(word, " ")
		if !empty && harmless.Width(now)+harmless.Width(bare) > width {
			lines = append(lines, strings.TrimRight(now, " "))
			now = after
		}
		for harmless.Width(now)+harmless.Width(bare) > width { // a word that is longer than a line
			part, left := split(bare, width-harmless.Width(now))
			lines = append(lines, now+part)
			now, bare, word = after, left, left+" "
		}
		now, empty = now+word, false
	}
	return append(lines, strings.TrimRight(now, " "))
}

// split divides a text at a width.
func split(s string, width int) (head, tail string) {
	columns := 0
	for i, r := range s {
		columns += harmless.RuneWidth(r)
		if columns > width && i > 0 {
			return s[:i], s[i:]
		}
	}
	return s, ""
}

func helpLines() []string {
	return []string{
		"Tab, Shift-Tab, 1 to 6   the panes: overview, keys, pages, queue, verdicts, gate",
		"up, down, j, k           the row above, below; also PgUp, PgDn, Home, End",
		"Enter                    into it: an explanation, or of a page its parts",
		"e                        an explanation of the row, in words",
		"left, right              the class before, after (keys)",
		"s, S                     sort by the next column, the other way round",
		"/                        show the rows with a text; Esc: all again",
		"p, Space                 pause, and go on",
		"Ctrl-L                   draw all anew",
		"?                        this",
		"q, Ctrl-C                quit; in a text like this one, back",
		"",
		"The bar has a letter for each group: known, newcomers, strangers, robots, exempt;",
		"w is wasted: it was used for clients that had disconnected. It is as long as all CPUs.",
		"CPU is in CPU-seconds per second: 2.00 is two cores. A level below 0 is a debt.",
		"What to look at first: docs/doctor.md.",
	}
}
