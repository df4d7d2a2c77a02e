package top

import (
	"slices"
	"time"

	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/limiter"
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
	id      string // of the chosen row, so that it stays when others come and go
	picked  bool   // a row was chosen; until then the first is
}

// Options are what does not change.
type Options struct {
	Release  string // of the doctor
	Interval time.Duration
	ASCII    bool // the terminal knows no Unicode
	Pane     Pane
	// Gate prints how the gate stands, a line each.
	Gate func(limiter.GateState) []string
}

// New returns a Model that knows nothing yet.
func New(o Options) *Model { return &Model{options: o, pane: o.Pane} }

// Resize tells the size of the screen.
func (m *Model) Resize(width, height int) { m.width, m.height = max(width, 0), max(height, 0) }

// Wants are the documents for the open pane.
func (m *Model) Wants() Wants {
	w := Wants{
		Series:  !m.begun,
		Queue:   m.pane == PaneQueue,
		Recent:  m.pane == PaneVerdicts,
		Buckets: m.pane == PaneKeys,
	}
	switch m.pane {
	case PaneOverview:
		w.Shapes = fewPages
	case PanePages:
		w.Shapes = mostPages
	default:
	}
	if w.Buckets {
		w.Sort = m.keys().columns[m.at[PaneKeys].by].order
		if all := m.data.Classes.Classes; len(all) > 0 {
			w.Class = all[min(m.class, len(all)-1)].Name
		}
	}
	return w
}

// Take takes the answer to some Wants. What there was an error for stays as it was, and the
// frame says so, of a proxy that does not answer at all with since when.
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
	m.data.Overview = d.Overview
	if err == nil {
		m.takePane(w, d)
	} else {
		m.lacks = err.Error()
	}
	m.history.add(point{at: d.Overview.Now, cpu: d.Overview.CPU, waiting: float64(m.waiting())})
	m.follow()
}

// takePane takes what the open pane shows.
func (m *Model) takePane(w Wants, d Data) {
	if w.Series {
		m.begun = true
		m.history.begin(d.Series.Points)
	}
	if w.Shapes > 0 {
		m.data.Shapes = d.Shapes
	}
	if w.Queue {
		m.data.Queue = d.Queue
	}
	if w.Recent {
		m.data.Recent = d.Recent
	}
	if w.Buckets {
		m.data.Classes, m.data.Buckets = d.Classes, d.Buckets
	}
}

// Tick tells the time while nothing else happens.
func (m *Model) Tick(now time.Time) { m.now = now }

// Away says that the proxy does not answer.
func (m *Model) Away() bool { return m.away != "" }

// Paused says that nothing is to be asked.
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

// text makes harmless what a client may have chosen.
func (m *Model) text(s string) string {
	if m.options.ASCII {
		return harmless.ASCII(s)
	}
	return harmless.Text(s)
}
