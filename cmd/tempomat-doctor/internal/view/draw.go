package view

import (
	"fmt"
	"strings"
	"time"

	"tempomat/proxy/admin/api"
)

// Style is the look of a text. It must not convey information that the text doesn't contain.
type Style uint8

// The styles. The bar of the CPUs uses those from Known on.
const (
	Plain Style = iota
	Faint
	Strong
	Marked // the chosen row, or the title of a text
	Good
	Warning
	Bad
	Known
	Newcomers
	Strangers
	Robots
	Exempt
	Wasted
)

// Span is a text in one style. It contains nothing that could control a terminal.
type Span struct {
	Style Style
	Text  string
}

// Frame is the content of the screen: lines of spans. The style of the last span continues to the end of its
// line.
type Frame struct {
	Width int
	Lines [][]Span
}

// add adds a line, cut to the width.
func (f *Frame) add(style Style, text string) {
	f.Lines = append(f.Lines, []Span{{style, Cut(text, f.Width)}})
}

// say adds a sentence, wrapped to the width.
func (f *Frame) say(style Style, text string) {
	for _, line := range Wrap(text, f.Width) {
		f.add(style, line)
	}
}

// clip removes the lines for which the screen has no room, and marks the last one that stays.
func (f *Frame) clip(lines int) {
	if lines < 1 || len(f.Lines) <= lines {
		return
	}
	f.Lines = f.Lines[:lines]
	if last := f.Lines[lines-1]; len(last) == 1 { // a line with several spans belongs to the header
		last[0].Text = Cut(last[0].Text+" "+cutMark, f.Width)
	}
}

// String returns the frame as text, without trailing spaces and empty lines at the end.
func (f *Frame) String() string {
	var all, text strings.Builder
	for _, line := range f.Lines {
		text.Reset()
		for _, s := range line {
			text.WriteString(s.Text)
		}
		all.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
	return strings.TrimRight(all.String(), "\n") + "\n"
}

// Frame draws the screen.
func (m *Model) Frame() *Frame {
	if m.width < 1 || m.height < 1 {
		return &Frame{}
	}
	f := m.header()
	m.body(f)
	for len(f.Lines) < m.height {
		f.add(Plain, "")
	}
	f.Lines = f.Lines[:m.height-1]
	f.add(Faint, m.footer())
	return f
}

// rows returns the number of lines that the header leaves for a table or a text.
func (m *Model) rows() int { return max(1, m.height-len(m.header().Lines)-3) }

// header draws the lines that are shown with every pane.
func (m *Model) header() *Frame {
	o := &m.data.Overview
	f := &Frame{Width: m.width}
	if len(o.Conditions) > 0 && m.away == "" {
		c := &o.Conditions[0]
		text := "! " + Text(c.What)
		if more := len(o.Conditions) - 1; more > 0 {
			text += fmt.Sprintf(" (+%d)", more)
		}
		if m.pane != PaneOverview {
			text += " Pane 1 shows what to do."
		}
		f.say(conditionStyle(c), text)
	}
	m.title(f)
	switch {
	case m.away != "":
		f.say(Bad, fmt.Sprintf("No answer since %s UTC; still trying: %s", m.lost.UTC().Format(time.TimeOnly), Text(m.away)))
	case m.lacks != "":
		f.say(Bad, "The proxy doesn't send the data for this pane: "+Text(m.lacks))
	default:
		m.bar(f)
	}
	m.groups(f)
	s := o.Strangers
	f.add(Plain, fmt.Sprintf("strangers: %s, %s CPUs, %s waiting, max %s", Addresses(s.Addresses), Number(s.CPU), Count(s.Waiting), Duration(s.Longest)))
	m.tabs(f)
	return f
}

func conditionStyle(c *api.Condition) Style {
	if c.Bad {
		return Bad
	}
	return Warning
}

// title draws the number of waiting requests, and the proxy's release, mode and uptime.
func (m *Model) title(f *Frame) {
	o := &m.data.Overview
	right := Clock(o.Now) + " UTC"
	if m.paused {
		right = "PAUSED  " + right
	}
	left := fmt.Sprintf("%s waiting, longest %s  ", Count(m.waiting()), Duration(m.longest()))
	about := fmt.Sprintf("tempomat %s  %s  up %s", Text(o.Release), Text(o.Mode), Duration(o.Uptime))
	if Width(left+about+right) < f.Width {
		left += about
	}
	f.add(Strong, left+strings.Repeat(" ", max(0, f.Width-Width(left+right)))+right)
}

// barStyle returns the colour of a group, and the letter that represents it in the bar.
func barStyle(group string) (Style, string) {
	switch group {
	case "known":
		return Known, "k"
	case "newcomers":
		return Newcomers, "n"
	case "strangers":
		return Strangers, "s"
	case "robots":
		return Robots, "r"
	}
	return Exempt, "e"
}

// bar draws how the CPUs are used. The wasted CPU time belongs to the groups, but it isn't known to which. Therefore
// the parts of all groups are reduced in proportion.
func (m *Model) bar(f *Frame) {
	o := &m.data.Overview
	left := fmt.Sprintf("CPU %s of %s [", Number(o.CPU), strings.TrimSuffix(Number(o.CPUs), ".00"))
	right := "] " + Percent(o.CPU, o.CPUs)
	room := f.Width - len(left) - len(right)
	if room < 0 {
		f.add(Strong, left+right)
		return
	}
	line, x, sum := []Span{{Strong, left}}, 0, 0.0
	part := func(cpu float64, style Style, letter string) {
		sum += cpu
		if to := min(room, int(sum/max(o.CPUs, o.CPU)*float64(room)+0.5)); to > x {
			line = append(line, Span{style, strings.Repeat(letter, to-x)})
			x = to
		}
	}
	if o.CPUs > 0 && o.CPU > 0 {
		for _, g := range o.Groups {
			style, letter := barStyle(g.Name)
			part(g.CPU*max(0, 1-o.Wasted/o.CPU), style, letter)
		}
		part(o.Wasted, Wasted, "w")
	}
	f.Lines = append(f.Lines, append(line, Span{Strong, strings.Repeat(" ", room-x) + right}))
}

// groups draws the table of the groups. The first letter of each name has the group's colour in the bar.
func (m *Model) groups(f *Frame) {
	t := &Table{gap: 1, Columns: []Column{{Width: 9, Grows: true}, {Name: "CPU", Width: 6}, {Name: "req/s", Width: 6}, {Name: "p50", Width: 6},
		{Name: "p95", Width: 6}, {Name: "waiting", Width: 7}, {Name: "longest", Width: 7}}}
	for _, g := range m.data.Overview.Groups {
		t.Add(g.Name, Number(g.CPU), Number(g.Rate), Duration(g.P50), Duration(g.P95), Count(g.Waiting), Duration(g.Longest))
	}
	for i, line := range t.Lines(f.Width) {
		if i == 0 {
			f.add(Strong, line)
			continue
		}
		style, letter := barStyle(m.data.Overview.Groups[i-1].Name)
		if rest, is := strings.CutPrefix(line, letter); is {
			f.Lines = append(f.Lines, []Span{{style, letter}, {Plain, rest}})
		} else {
			f.add(Plain, line)
		}
	}
}

// tabs draws the names of the panes, with the open one in brackets.
func (m *Model) tabs(f *Frame) {
	var names []string
	for p, name := range Panes() {
		if Pane(p) == m.pane {
			name = "[" + name + "]"
		}
		names = append(names, fmt.Sprintf("%d %s", p+1, name))
	}
	f.add(Faint, strings.Join(names, "  "))
}

// body draws the open text, or otherwise the open pane.
func (m *Model) body(f *Frame) {
	if m.text != nil {
		f.add(Marked, m.text.title)
		for _, line := range m.text.lines(f.Width)[m.text.first:] {
			f.add(Plain, line)
		}
		return
	}
	switch t := m.table(); {
	case t != nil:
		f.add(Faint, fmt.Sprintf("%d of %s; %s", len(t.rows), Count(max(t.total, len(t.rows))), t.note))
		f.table(t, m.at[m.pane].row, m.rows())
	case m.pane == PaneGate:
		for _, line := range gateLines(&m.data.Overview.Gate) {
			f.say(Plain, line)
		}
		f.clip(m.height - 1)
	default:
		m.overview(f)
	}
}

// table draws the names of the columns and at most shown rows. It scrolls to the row chosen. If chosen is -1, no row
// is chosen.
func (f *Frame) table(t *Table, chosen, shown int) {
	lines := t.Lines(f.Width)
	f.add(Strong, lines[0])
	first := max(0, chosen-shown+1)
	for i := first; i < min(len(t.rows), first+shown); i++ {
		style := t.rows[i].style
		if i == chosen {
			style = Marked
		}
		f.add(style, lines[1+i])
	}
}

// overview draws the findings, and below them the most expensive pages.
func (m *Model) overview(f *Frame) {
	for _, s := range m.findings() {
		lines := Wrap("  "+s.text, f.Width)
		if s.style == Bad {
			lines[0] = "!" + lines[0][1:]
		}
		for _, line := range lines {
			f.add(s.style, line)
		}
	}
	f.clip(m.height - 1)
	f.add(Plain, "")
	f.table(m.pages(), -1, m.height)
}

// footer lists the keys.
func (m *Model) footer() string {
	if m.text == nil {
		return "? help  Tab, 1-6 panes  Enter open  p pause  q quit"
	}
	text := "up, down, PgUp, PgDn  q back"
	if left := len(m.text.lines(m.width)) - m.text.first - m.rows() - 1; left > 0 {
		text += fmt.Sprintf("  %d more lines", left)
	}
	return text
}
