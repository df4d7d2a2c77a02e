package view

import (
	"fmt"
	"math"
	"strings"
	"time"

	"tempomat/proxy/admin/api"
)

// wideFrom is the least width that has room for curves beside the groups.
const wideFrom = 78

// Frame draws the screen.
func (m *Model) Frame() *Frame {
	f := newFrame(m.width, m.height)
	if m.height < 1 || m.width < 1 {
		return f
	}
	y := m.header(f)
	end := m.height - 1
	if m.pager != nil {
		m.drawPager(f, y, end)
	} else {
		y = m.tabs(f, y)
		m.body(f, y, end)
	}
	m.footer(f)
	return f
}

// rows is how many lines the header leaves to a table.
func (m *Model) rows() int {
	head := 10
	if m.worst() != nil {
		head++
	}
	return max(1, m.height-head-3)
}

// header draws what is always there, and returns the line below.
func (m *Model) header(f *Frame) int {
	o := &m.data.Overview
	y := m.wrong(f)
	m.title(f, y)
	y++
	switch {
	case m.away != "":
		since := max(0, m.now.Sub(m.lost)).Round(time.Second)
		f.line(y, Bad, fmt.Sprintf("No answer from the proxy for %s, still asking: %s", since, Text(m.away)))
	case m.lacks != "":
		f.line(y, Bad, "The proxy doesn't report what this pane shows: "+Text(m.lacks))
	default:
		m.bar(f, y)
	}
	y++
	y = m.groups(f, y)
	s := o.Strangers
	f.put(0, y, f.Width, Plain, fmt.Sprintf("strangers: %s addresses, %s CPUs, %s wait, longest %s",
		Count(s.Addresses), Number(s.CPU), Count(s.Waiting), Duration(s.Longest)))
	return y + 1
}

// worst is the condition that the first line names; nil: nothing is wrong.
func (m *Model) worst() *api.Condition {
	if all := m.data.Overview.Conditions; len(all) > 0 && m.away == "" {
		return &all[0]
	}
	return nil
}

// wrong names what is wrong now in the first line, and returns the line below. What to do about it,
// and what else is wrong, is in the overview.
func (m *Model) wrong(f *Frame) int {
	c := m.worst()
	if c == nil {
		return 0
	}
	text := "! " + Text(c.What)
	if more := len(m.data.Overview.Conditions) - 1; more > 0 {
		text += fmt.Sprintf(" (+%d)", more)
	}
	if m.pane != PaneOverview {
		text += " Pane 1 shows what to do."
	}
	f.line(0, conditionStyle(c), text)
	return 1
}

func conditionStyle(c *api.Condition) Style {
	if c.Bad {
		return Bad
	}
	return Warning
}

// title is how many wait, and which proxy it is.
func (m *Model) title(f *Frame, y int) {
	o := &m.data.Overview
	right := Clock(o.Now) + " UTC"
	if m.paused {
		right = "PAUSED  " + right
	}
	left := fmt.Sprintf("%s wait, longest %s  ", Count(m.waiting()), Duration(m.longest()))
	at := f.Width - Width(right)
	about := fmt.Sprintf("tempomat %s  %s  up %s", Text(o.Release), Text(o.Mode), Duration(o.Uptime))
	if len(left)+Width(about) < at {
		left += about
	}
	f.put(0, y, at-1, Strong, left)
	f.put(max(at, 0), y, f.Width, Strong, right)
}

// barStyle is the colour of a group, and letter what stands for it in the bar.
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

// bar draws how the CPUs are used. Wasted use is part of the groups' use: all their parts are
// reduced in proportion, because it is unknown whose it was.
func (m *Model) bar(f *Frame, y int) {
	o := &m.data.Overview
	left := fmt.Sprintf("CPU %s of %s [", Number(o.CPU), strings.TrimSuffix(Number(o.CPUs), ".00"))
	right := "] " + Percent(o.CPU, o.CPUs)
	x := f.put(0, y, f.Width, Strong, left)
	end := f.Width - len(right)
	f.put(end, y, f.Width, Strong, right)
	if o.CPUs <= 0 || o.CPU <= 0 || end <= x {
		return
	}
	columns := float64(end-x) / max(o.CPUs, o.CPU)
	useful := max(0, 1-o.Wasted/o.CPU)
	from, sum := x, 0.0
	part := func(cpu float64, style Style, letter string) {
		sum += cpu
		to := min(end, from+int(sum*columns+0.5))
		for ; x < to; x++ {
			f.put(x, y, end, style, letter)
		}
	}
	for _, g := range o.Groups {
		style, letter := barStyle(g.Name)
		part(g.CPU*useful, style, letter)
	}
	part(o.Wasted, Wasted, "w")
}

const groupsWidth = 50 // columns of the table of groups

// groups draws the table of the groups, and the sparklines next to it.
func (m *Model) groups(f *Frame, y int) int {
	head := fmt.Sprintf("%-9s %6s %6s %6s %6s %6s %6s", "", "CPU", "req/s", "p50", "p95", "waits", "longest")
	f.put(0, y, f.Width, Strong, head)
	for i, g := range m.data.Overview.Groups {
		if i == api.Groups {
			break
		}
		style, letter := barStyle(g.Name)
		line := y + 1 + i
		f.put(0, line, f.Width, Plain, fmt.Sprintf("%-9s %6s %6s %6s %6s %6s %7s", Text(g.Name),
			Number(g.CPU), Number(g.Rate), Duration(g.P50), Duration(g.P95), Count(g.Waiting), Duration(g.Longest)))
		if strings.HasPrefix(g.Name, letter) {
			f.put(0, line, f.Width, style, letter)
		}
	}
	if f.Width >= wideFrom {
		m.sparks(f, groupsWidth+4, y)
	}
	return y + 1 + api.Groups
}

// sparks draws what CPU and waiting were in the last minutes.
func (m *Model) sparks(f *Frame, x, y int) {
	n := min(f.Width-x-1, int(span))
	hold := 2*m.options.Interval.Seconds() + 1
	cpu := m.history.columns(n, hold, func(p point) float64 { return p.cpu })
	waiting := m.history.columns(n, hold, func(p point) float64 { return p.waiting })
	most := 0.0
	for _, v := range waiting {
		most = max(most, v)
	}
	f.put(x, y, f.Width, Strong, "CPU, 5 min, of "+Number(m.data.Overview.CPUs))
	f.spark(x, y+1, 2, cpu, m.data.Overview.CPUs)
	f.put(x, y+3, f.Width, Strong, fmt.Sprintf("waiting, most %s", Count(int(most))))
	f.spark(x, y+4, 2, waiting, most)
}

// tabs draws the names of the panes.
func (m *Model) tabs(f *Frame, y int) int {
	f.line(y, Faint, "")
	x := 0
	for p, name := range Panes() {
		style := Faint
		if Pane(p) == m.pane {
			style = Marked
			name = "[" + name + "]"
		}
		x = f.put(x, y, f.Width, style, fmt.Sprintf("%d %s", p+1, name)) + 2
	}
	return y + 1
}

// body draws the open pane.
func (m *Model) body(f *Frame, y, end int) {
	if t, ok := m.shown(); ok {
		f.put(0, y, f.Width, Faint, m.above(t))
		at := m.at[m.pane]
		t.draw(f, y+1, end, at.row, at.by)
		return
	}
	if m.pane == PaneGate {
		for i, line := range gateLines(m.data.Overview.Gate) {
			if y+i < end {
				f.put(0, y+i, f.Width, Plain, line)
			}
		}
		return
	}
	m.overview(f, y, end)
}

// above is the line above a table.
func (m *Model) above(t table) string {
	at := m.at[m.pane]
	text := fmt.Sprintf("%d of %s", len(t.rows), Count(max(t.total, len(t.rows))))
	if at.filter != "" || m.typing {
		text += " with /" + Text(at.filter)
		if m.typing {
			text += "_"
		}
	}
	return text + "; " + t.note
}

// overview draws the sentences, and below them the first pages.
func (m *Model) overview(f *Frame, y, end int) {
	for _, s := range m.findings() {
		for i, line := range Wrap("  "+s.text, f.Width) {
			if y >= end {
				return
			}
			f.put(0, y, f.Width, s.style, line)
			if i == 0 && s.style == Bad {
				f.put(0, y, f.Width, s.style, "!")
			}
			y++
		}
	}
	if y+3 > end {
		return
	}
	t := m.pages()
	t.sorted(0, false)
	t.draw(f, y+1, end, -1, -1)
}

// drawPager draws the text over the panes.
func (m *Model) drawPager(f *Frame, y, end int) {
	f.line(y, Marked, m.pager.title)
	lines := m.pagerLines()
	for i := m.pager.first; i < len(lines) && y+1 < end; i++ {
		y++
		f.put(0, y, f.Width, Plain, lines[i])
	}
}

// footer names the keys.
func (m *Model) footer(f *Frame) {
	text := "? help  Tab, 1-6 panes  Enter open  s S sort  / filter  p pause  q quit"
	switch {
	case m.typing:
		text = "type a text that rows must contain; Enter: keep, Esc: show all"
	case m.pager != nil:
		text = "up, down, PgUp, PgDn  q back"
		if left := len(m.pagerLines()) - m.pager.first - m.pagerRows(); left > 0 {
			text += fmt.Sprintf("  %d more lines", left)
		}
	}
	f.line(m.height-1, Faint, text)
}

// Style is how a cell looks. No meaning is in it alone: what it says, a letter says too.
type Style uint8

// The styles. Those of the groups colour the bar of the CPUs.
const (
	Plain Style = iota
	Faint
	Strong
	Marked // the chosen row, the open pane
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

// Cell is a column of a line. Text is a letter with its accents; that of the second column
// of a wide letter is empty.
type Cell struct {
	Text  string
	Style Style
}

// Frame is what the screen shows.
type Frame struct {
	Width, Height int
	cells         []Cell
}

func newFrame(width, height int) *Frame {
	f := &Frame{Width: width, Height: height, cells: make([]Cell, width*height)}
	for i := range f.cells {
		f.cells[i].Text = " "
	}
	return f
}

// Cell is the one at a place on the frame.
func (f *Frame) Cell(x, y int) Cell { return f.cells[y*f.Width+x] }

// put writes a harmless text, and returns the column after it. A text that does not fit into
// the columns up to end is cut, with a ~.
func (f *Frame) put(x, y, end int, style Style, text string) int {
	end = min(end, f.Width)
	if x < 0 || x >= end || y < 0 || y >= f.Height {
		return x
	}
	text = Cut(text, end-x)
	line := f.cells[y*f.Width : (y+1)*f.Width]
	for i, r := range text {
		letter := text[i : i+len(string(r))]
		width := RuneWidth(r)
		if width == 0 {
			if x > 0 && line[x-1].Text != "" {
				line[x-1].Text += letter
			}
			continue
		}
		line[x] = Cell{Text: letter, Style: style}
		if width == 2 {
			line[x+1] = Cell{Style: style}
		}
		x += width
	}
	return x
}

// line writes a text into a whole line, and gives all of it the style.
func (f *Frame) line(y int, style Style, text string) {
	if y < 0 || y >= f.Height {
		return
	}
	for x := f.put(0, y, f.Width, style, text); x < f.Width; x++ {
		f.cells[y*f.Width+x].Style = style
	}
}

// String is the frame as text, without what is blank at the ends of lines and below.
func (f *Frame) String() string {
	var all strings.Builder
	for y := range f.Height {
		var line strings.Builder
		for x := range f.Width {
			line.WriteString(f.Cell(x, y).Text)
		}
		all.WriteString(strings.TrimRight(line.String(), " "))
		all.WriteByte('\n')
	}
	return strings.TrimRight(all.String(), "\n") + "\n"
}

// spark draws columns as bars of some lines; the scale is the value of a full bar.
func (f *Frame) spark(x, y, height int, columns []float64, scale float64) {
	letters := []rune(" ▁▂▃▄▅▆▇█") // from nothing to all
	most := len(letters) - 1
	for i, v := range columns {
		if scale <= 0 {
			continue
		}
		filled := int(math.Ceil(v / scale * float64(most*height)))
		for line := range height { // from below
			step := min(max(filled-line*most, 0), most)
			f.put(x+i, y+height-1-line, f.Width, Plain, string(letters[step]))
		}
	}
}
