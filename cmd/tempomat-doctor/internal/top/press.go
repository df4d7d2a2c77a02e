package top

import (
	"unicode"
	"unicode/utf8"
)

// Effect is what a key asks of the program around the Model.
type Effect struct {
	Quit    bool
	Suspend bool
	Redraw  bool   // all of the screen, as something else has painted on it
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
		m.pager = &pager{title: "keys", lines: helpLines()}
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
			m.pager = &pager{title: r.cells[5], page: r.id, of: r.of}
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
	m.pager = &pager{title: "explain " + m.text(of), of: of, lines: []string{"asking …"}}
	return Effect{Explain: of}
}

// inTable does what keys mean in a table.
func (m *Model) inTable(key string) Effect {
	t, ok := m.table(m.pane)
	if !ok {
		return Effect{}
	}
	at := &m.at[m.pane]
	moved := true
	switch key {
	case "up", "k":
		m.choose(at.row - 1)
	case "down", "j":
		m.choose(at.row + 1)
	case "pgup":
		m.choose(at.row - m.rows())
	case "pgdn":
		m.choose(at.row + m.rows())
	case "home", "g":
		m.choose(0)
	case "end", "G":
		m.choose(mostRows)
	default:
		moved = false
	}
	if moved {
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

// next is the next column that can be sorted by: if the proxy has to, one that it can.
func (t *table) next(by int) int {
	byProxy := t.columns[0].order != ""
	for range t.columns {
		by = (by + 1) % len(t.columns)
		if !byProxy || t.columns[by].order != "" {
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
