package view

import (
	"math"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"tempomat/proxy/admin/api"
)

// Model is all that top knows: what it was told, and what is chosen. It reads no clock and
// no terminal: it is told answers, keys and sizes, and makes a frame of them. It is for one
// goroutine.
type Model struct {
	options       Options
	width, height int

	data    Data
	history history
	begun   bool   // the history before us was told
	away    string // why the proxy does not answer; "": it does
	lacks   string // why it does not tell what the pane shows; "": it does
	lost    time.Time
	now     time.Time

	pane   Pane
	at     [panes]choice
	class  int // of the keys
	paused bool
	typing bool // the filter
	pager  *pager
}

// choice is what is chosen in a pane.
type choice struct {
	by      int // column
	reverse bool
	filter  string
	row     int
	id      string // id of the chosen row, so it stays when others come and go
	picked  bool   // a row was chosen; until then the first is
}

// Options are what does not change.
type Options struct {
	Interval time.Duration
	Pane     Pane
}

// New returns a Model that knows nothing yet.
func New(o Options) *Model { return &Model{options: o, pane: o.Pane} }

// Resize sets the size of the screen.
func (m *Model) Resize(width, height int) { m.width, m.height = max(width, 0), max(height, 0) }

// Wants are the documents for the open pane.
func (m *Model) Wants() Wants {
	w := Wants{Pane: m.pane, Series: !m.begun, Sort: m.keys().orders[m.at[PaneKeys].by], before: m.data}
	if all := m.data.Classes.Classes; len(all) > 0 {
		w.Class = all[min(m.class, len(all)-1)].Name
	}
	return w
}

// Take takes the answer to some Wants. After an error the old data stays, and the frame shows
// the error; if the proxy does not answer at all, since when.
func (m *Model) Take(now time.Time, w Wants, d Data, err error) {
	m.now = now
	if err != nil && d.Overview.Version == 0 {
		if m.away == "" {
			m.lost = now
		}
		m.away = err.Error()
		return
	}
	m.away, m.lacks = "", ""
	m.data = d
	switch {
	case err != nil:
		m.lacks = err.Error()
	case w.Series:
		m.begun = true
		m.history.begin(d.Series.Points)
	}
	m.history.add(point{at: d.Overview.Now, cpu: d.Overview.CPU, waiting: float64(m.waiting())})
	m.follow()
}

// Tick sets the time while nothing else happens.
func (m *Model) Tick(now time.Time) { m.now = now }

// Away notes that the proxy does not answer.
func (m *Model) Away() bool { return m.away != "" }

// Paused is true if nothing is to be asked.
func (m *Model) Paused() bool { return m.paused }

// shown is the table of the open pane as it is sorted and filtered.
func (m *Model) shown() (t table, ok bool) {
	t, ok = m.table(m.pane)
	if !ok {
		return t, false
	}
	at := &m.at[m.pane]
	t.sorted(at.by, at.reverse)
	t.filtered(at.filter)
	return t, true
}

// follow keeps the chosen row chosen, wherever it went.
func (m *Model) follow() {
	at := &m.at[m.pane]
	if !at.picked {
		return
	}
	t, _ := m.shown()
	if i := slices.IndexFunc(t.rows, func(r row) bool { return r.id == at.id }); i >= 0 {
		at.row = i
	}
	m.choose(at.row)
}

// choose chooses a row, the nearest that there is.
func (m *Model) choose(i int) {
	at := &m.at[m.pane]
	t, _ := m.shown()
	at.row = max(0, min(i, len(t.rows)-1))
	if len(t.rows) > 0 {
		at.id = t.rows[at.row].id
	}
}

// chosen is the row that is chosen.
func (m *Model) chosen() (r row, ok bool) {
	t, _ := m.shown()
	if i := m.at[m.pane].row; i < len(t.rows) {
		return t.rows[i], true
	}
	return row{}, false
}

// Effect is what a key asks of the program around the Model.
type Effect struct {
	Quit    bool
	Suspend bool
	Redraw  bool   // draw the whole screen, because another program has written on it
	Ask     bool   // now: what is shown has changed
	Explain string // what to ask an explanation of; "": nothing
}

// mostFilter is the longest filter, in bytes.
const mostFilter = 100

// Press does what a key says. Keys are letters, or names: tab, backtab, enter, esc,
// backspace, up, down, left, right, pgup, pgdn, home, end, and ctrl-c, -l and -z.
func (m *Model) Press(key string) Effect {
	switch key {
	case "ctrl-c":
		return Effect{Quit: true}
	case "ctrl-l":
		return Effect{Redraw: true}
	case "ctrl-z":
		return Effect{Suspend: true}
	}
	switch {
	case m.typing:
		m.filter(key)
		return Effect{}
	case m.pager != nil:
		return m.turn(key)
	}
	if e, ok := m.anywhere(key); ok {
		return e
	}
	return m.inTable(key)
}

// anywhere does what keys mean in every pane.
func (m *Model) anywhere(key string) (e Effect, ok bool) {
	switch key {
	case "q":
		return Effect{Quit: true}, true
	case "p", " ":
		m.paused = !m.paused
		return Effect{Ask: !m.paused}, true
	case "?", "h":
		m.pager = &pager{title: "keys", lines: helpLines}
		return Effect{}, true
	case "tab":
		return m.open((m.pane + 1) % panes), true
	case "backtab":
		return m.open((m.pane + panes - 1) % panes), true
	case "1", "2", "3", "4", "5", "6":
		return m.open(Pane(key[0] - '1')), true
	case "left", "right":
		if all := len(m.data.Classes.Classes); m.pane == PaneKeys && all > 0 {
			step := 1
			if key == "left" {
				step = all - 1
			}
			m.class = (min(m.class, all-1) + step) % all
			m.at[PaneKeys].row, m.at[PaneKeys].picked = 0, false
			m.data.Buckets.Rows, m.data.Buckets.Total = nil, 0
			return Effect{Ask: true}, true
		}
	case "enter":
		return m.enter(), true
	case "e":
		if r, ok := m.chosen(); ok {
			return m.explain(r.of), true
		}
	}
	return Effect{}, false
}

func (m *Model) open(p Pane) Effect {
	m.pane = p
	m.follow()
	return Effect{Ask: true}
}

// enter goes into what is chosen.
func (m *Model) enter() Effect {
	switch m.pane {
	case PaneOverview:
		return m.open(PanePages)
	case PanePages:
		if r, ok := m.chosen(); ok {
			m.pager = &pager{title: r.cells[5], of: r.of, lines: func() []string { return m.pageLines(r.id) }}
		}
		return Effect{}
	default:
		if r, ok := m.chosen(); ok {
			return m.explain(r.of)
		}
		return Effect{}
	}
}

// explain opens the pager for an explanation that is to come.
func (m *Model) explain(of string) Effect {
	if of == "" {
		return Effect{}
	}
	m.pager = &pager{title: "explain " + Text(of), of: of, asked: true, lines: func() []string { return []string{"asking …"} }}
	return Effect{Explain: of}
}

// inTable does what keys mean in a table.
func (m *Model) inTable(key string) Effect {
	t, ok := m.table(m.pane)
	if !ok {
		return Effect{}
	}
	at := &m.at[m.pane]
	if rows, is := step(key, m.rows()); is {
		m.choose(at.row + rows)
		at.picked = true
		return Effect{}
	}
	switch key {
	case "s":
		at.by, at.reverse, at.row, at.picked = t.next(at.by), false, 0, false
	case "S":
		at.reverse, at.row, at.picked = !at.reverse, 0, false
	case "/":
		m.typing = true
	case "esc":
		at.filter = ""
	default:
		return Effect{}
	}
	m.follow()
	return Effect{Ask: key == "s" && m.pane == PaneKeys}
}

// step is by how many rows a key goes on, where so many are shown.
func step(key string, shown int) (rows int, is bool) {
	rows, is = map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -shown, "pgdn": shown, "home": -math.MaxInt32, "g": -math.MaxInt32, "end": math.MaxInt32, "G": math.MaxInt32,
	}[key]
	return rows, is
}

// next is the next column that can be sorted by: if the proxy has to, one that it can.
func (t *table) next(by int) int {
	for range t.Columns {
		by = (by + 1) % len(t.Columns)
		if t.orders == nil || by < len(t.orders) && t.orders[by] != "" {
			return by
		}
	}
	return by
}

// filter takes a key while the filter is typed.
func (m *Model) filter(key string) {
	at := &m.at[m.pane]
	switch key {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, at.filter = false, ""
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(at.filter)
		at.filter = at.filter[:len(at.filter)-n]
	default:
		if r, n := utf8.DecodeRuneInString(key); n == len(key) && unicode.IsPrint(r) && len(at.filter)+n <= mostFilter {
			at.filter += key
		}
	}
	m.follow()
	m.choose(at.row)
}

// span is the seconds that the sparklines show.
const span = 300.0

// point is a moment of the sparklines.
type point struct{ at, cpu, waiting float64 }

// history is the last points, the oldest first.
type history struct{ points []point }

// begin takes what was before we came.
func (h *history) begin(points []api.Point) {
	h.points = h.points[:0]
	for _, p := range points {
		one := point{at: p.At}
		for g := range api.Groups {
			one.cpu += p.CPU[g]
			one.waiting += float64(p.Waiting[g])
		}
		h.add(one)
	}
}

// add takes the latest point, and forgets those that the sparklines no longer show.
func (h *history) add(p point) {
	h.points = append(slices.DeleteFunc(h.points, func(old point) bool { return old.at < p.at-span }), p)
}

// columns are the greatest values of the parts of the span, the last on the right; 0:
// none is known. A part without a point has the value of the one before it, if that is not
// older than hold seconds.
func (h *history) columns(n int, hold float64, value func(point) float64) []float64 {
	out := make([]float64, n)
	if n == 0 || len(h.points) == 0 {
		return out
	}
	step := span / float64(n)
	last := math.Floor(h.points[len(h.points)-1].at / step)
	at := func(p point) int { return n - 1 - int(last-math.Floor(p.at/step)) }
	for i, p := range h.points {
		from := at(p)
		to := from
		if i+1 < len(h.points) && h.points[i+1].at-p.at <= hold {
			to = at(h.points[i+1]) - 1
		}
		for c := max(from, 0); c <= max(from, to) && c < n; c++ {
			out[c] = max(out[c], value(p))
		}
	}
	return out
}
