package top

import "github.com/gdamore/tcell/v3"

// tcellStyle is how a terminal shows a style: with the 8 colours that all have, in the
// shades that its user chose; tcell leaves them out where NO_COLOR is set or there are none.
func tcellStyle(s Style) tcell.Style {
	plain := tcell.StyleDefault
	on := func(c tcell.Color) tcell.Style { return plain.Background(c).Foreground(tcell.PaletteColor(0)) }
	switch s {
	case Faint:
		return plain.Dim(true)
	case Strong:
		return plain.Bold(true)
	case Marked:
		return plain.Reverse(true)
	case Good:
		return plain.Foreground(tcell.PaletteColor(2))
	case Warning:
		return plain.Foreground(tcell.PaletteColor(3))
	case Bad:
		return plain.Foreground(tcell.PaletteColor(1)).Bold(true)
	case Known:
		return on(tcell.PaletteColor(2))
	case Newcomers:
		return on(tcell.PaletteColor(6))
	case Strangers:
		return on(tcell.PaletteColor(3))
	case Robots:
		return on(tcell.PaletteColor(5))
	case Exempt:
		return on(tcell.PaletteColor(7))
	case Wasted:
		return on(tcell.PaletteColor(1))
	default:
		return plain
	}
}

// keyName is a key as the Model knows it; "" is one that it does not know.
func keyName(ev *tcell.EventKey) string {
	if ev.Key() == tcell.KeyRune {
		if ev.Modifiers()&^tcell.ModShift != 0 {
			return ""
		}
		return ev.Str()
	}
	return map[tcell.Key]string{
		tcell.KeyTab: "tab", tcell.KeyBacktab: "backtab", tcell.KeyEnter: "enter", tcell.KeyEscape: "esc",
		tcell.KeyBackspace: "backspace", tcell.KeyDelete: "backspace",
		tcell.KeyUp: "up", tcell.KeyDown: "down", tcell.KeyLeft: "left", tcell.KeyRight: "right",
		tcell.KeyPgUp: "pgup", tcell.KeyPgDn: "pgdn", tcell.KeyHome: "home", tcell.KeyEnd: "end",
		tcell.KeyCtrlC: "ctrl-c", tcell.KeyCtrlL: "ctrl-l", tcell.KeyCtrlZ: "ctrl-z",
	}[ev.Key()]
}
