package view

import (
	"math"
	"slices"
	"strings"
	"time"

	"tempomat/proxy/admin/api"
)

// Model is the state of top: the proxy's last answers, and the user's choices. It receives answers, keys and screen
// sizes, and makes frames from them. Only one goroutine may use it.
type Model struct {
	width, height int

	data  Data
	away  string    // why the proxy doesn't answer; "" if it does
	lacks string    // why the proxy doesn't send the open pane's document; "" if it does
	lost  time.Time // when the proxy stopped answering

	pane   Pane
	at     [panes]choice
	class  int // in the pane keys: an index into the classes
	order  int // in the pane keys: an index into orders
	paused bool
	text   *text // shown over the pane; nil: none
}

// choice is the chosen row of a pane.
type choice struct {
	row int
	id  string // after the user has moved to a row: the row's id, so it stays chosen while other rows come and go
}

// text is shown instead of a pane. It contains nothing that could control a terminal.
type text struct {
	title      string
	head, body func(width int) string
	first      int    // the first line shown
	of         string // the question whose answer will become the body; "" if there is none
}

// lines wraps the text for a screen of the given width.
func (t *text) lines(width int) (all []string) {
	whole := t.body(width)
	if t.head != nil {
		whole = t.head(width) + "\n" + whole
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(whole, "\n"), "\n") {
		all = append(all, Wrap(line, width)...)
	}
	return all
}

// New returns a Model that shows a pane and has no data yet.
func New(p Pane) *Model { return &Model{pane: p} }

// Resize sets the size of the screen.
func (m *Model) Resize(width, height int) {
	m.width, m.height = max(width, 0), max(height, 0)
	m.scroll(0)
}

// Wants returns the documents that the open pane needs.
func (m *Model) Wants() Wants {
	w := Wants{Pane: m.pane, Sort: orders[m.order][1], before: m.data}
	if all := m.data.Classes.Classes; len(all) > 0 {
		w.Class = all[min(m.class, len(all)-1)].Name
	}
	return w
}

// Take handles the answer to some Wants. After an error, the old data stays, and the frame shows the error. If the
// proxy doesn't answer at all, the frame also shows how long ago it stopped answering.
func (m *Model) Take(now time.Time, d Data, err error) {
	if err != nil && d.Overview.Version == 0 {
		if m.away == "" {
			m.lost = now
		}
		m.away = err.Error()
		return
	}
	m.away, m.lacks = "", ""
	m.data = d
	if err != nil {
		m.lacks = err.Error()
	}
	m.follow()
}

// Paused reports whether the user has paused top. It then sends no requests to the proxy.
func (m *Model) Paused() bool { return m.paused }

// chosen returns the chosen row, or nil if there is none.
func (m *Model) chosen() *row {
	t, at := m.table(), &m.at[m.pane]
	if t == nil || len(t.rows) == 0 {
		return nil
	}
	at.row = min(at.row, len(t.rows)-1)
	return &t.rows[at.row]
}

// follow moves the mark to the row that the user chose, wherever the row is now.
func (m *Model) follow() {
	at := &m.at[m.pane]
	if r := m.chosen(); r == nil || at.id == "" || r.id == at.id {
		return
	}
	if i := slices.IndexFunc(m.table().rows, func(r row) bool { return r.id == at.id }); i >= 0 {
		at.row = i
	}
}

// scroll moves the text by a number of lines, or the mark by a number of rows.
func (m *Model) scroll(by int) {
	if m.text != nil {
		m.text.first = max(0, min(m.text.first+by, len(m.text.lines(m.width))-m.rows()-1))
		return
	}
	at := &m.at[m.pane]
	at.row = max(0, at.row+by)
	if r := m.chosen(); r != nil && by != 0 {
		at.id = r.id
	}
}

// Effect is what the program around the Model must do after a key press.
type Effect struct {
	Quit    bool
	Redraw  bool   // draw the whole screen, because another program has written on it
	Ask     bool   // request at once, because the frame needs another document
	Explain string // the question to send to explain; "" if there is none
}

// Press handles a key. Keys are single letters, or one of tab, backtab, enter, esc, up, down, left, right,
// pgup, pgdn, home, end, ctrl-c and ctrl-l.
func (m *Model) Press(key string) Effect {
	switch key {
	case "ctrl-c":
		return Effect{Quit: true}
	case "ctrl-l":
		return Effect{Redraw: true}
	case "q", "esc":
		if m.text == nil {
			return Effect{Quit: key == "q"}
		}
		m.text = nil
	case "p", " ":
		m.paused = !m.paused
		return Effect{Ask: !m.paused}
	case "?", "h":
		m.text = &text{title: "keys", body: func(int) string { return help }}
	case "tab":
		return m.open((m.pane + 1) % panes)
	case "backtab":
		return m.open((m.pane + panes - 1) % panes)
	case "1", "2", "3", "4", "5", "6":
		return m.open(Pane(key[0] - '1'))
	case "enter":
		return m.enter()
	case "left":
		return m.keysBy(-1, 0)
	case "right":
		return m.keysBy(1, 0)
	case "s":
		return m.keysBy(0, 1)
	default:
		page := m.rows()
		m.scroll(map[string]int{
			"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "pgdn": page, "home": -math.MaxInt32, "g": -math.MaxInt32, "end": math.MaxInt32, "G": math.MaxInt32,
		}[key])
	}
	return Effect{}
}

func (m *Model) open(p Pane) Effect {
	m.pane, m.text = p, nil
	m.follow()
	return Effect{Ask: true}
}

// keysBy switches the pane keys to a different class or order.
func (m *Model) keysBy(class, order int) Effect {
	all := len(m.data.Classes.Classes)
	if m.pane != PaneKeys || m.text != nil || all == 0 {
		return Effect{}
	}
	m.class = (min(m.class, all-1) + class + all) % all
	m.order = (m.order + order) % len(orders)
	m.at[PaneKeys] = choice{}
	if class != 0 {
		m.data.Buckets.Rows, m.data.Buckets.Total = nil, 0
	}
	return Effect{Ask: true}
}

// enter opens the explanation of the chosen row. For a page, the parts of its cost are shown first.
func (m *Model) enter() Effect {
	if m.pane == PaneOverview && m.text == nil {
		return m.open(PanePages)
	}
	r := m.chosen()
	if r == nil || m.text != nil {
		return Effect{}
	}
	m.text = &text{title: "explain " + Text(r.of), of: r.of, body: func(int) string { return "asking …" }}
	if m.pane == PanePages {
		m.text.head = m.parts(m.data.Shapes.Rows[m.at[m.pane].row])
	}
	return Effect{Explain: r.of}
}

// Explained handles the answer to an Explain. It ignores the answer if the user has closed the text.
func (m *Model) Explained(of string, r *api.ExplainReply, err error) {
	if m.text == nil || m.text.of != of {
		return
	}
	m.text.of = ""
	m.text.body = func(width int) string { return Explanation(r, width) }
	if err != nil {
		m.text.body = func(int) string { return "No explanation: " + Text(err.Error()) }
	}
}

const help = `Tab, Shift-Tab, 1 to 6   panes: overview, keys, pages, queue, verdicts, gate
up, down, j, k           previous or next row; also PgUp, PgDn, Home, End
Enter                    explain the row; for a page, also show its parts
left, right              previous or next class (keys pane)
s                        sort by the next column (keys pane)
p, Space                 pause or continue
Ctrl-L                   redraw the screen
?                        show this help
q, Ctrl-C                quit; in a text like this one, q and Esc go back

The full bar is all CPUs. Its letters stand for the groups: known, newcomers,
strangers, robots, exempt. w is CPU time wasted on disconnected clients.
CPU is in CPU-seconds per second: 2.00 is two CPUs. A level below 0 is a debt.
docs/doctor.md describes what to look at first.`
