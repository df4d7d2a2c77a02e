package top

import (
	"cmp"
	"slices"
	"strings"

	"tempomat/cmd/tempomat-doctor/internal/harmless"
)

// column is one of a table.
type column struct {
	name  string
	width int  // least; of one that grows: what it needs to be of use
	grows bool // it is text, and takes what the others leave
	most  int  // as far as it grows; 0: as far as its texts need
	must  int  // columns that do not fit go, those with the greatest number first
	order string
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
	columns []column
	rows    []row
	total   int    // rows that there are; the proxy tells the first of them
	note    string // what is to know of all of it
}

// sorted orders the rows by a column: the greatest number, or the first text, comes first.
func (t *table) sorted(by int, reverse bool) {
	slices.SortStableFunc(t.rows, func(a, b row) int {
		c := cmp.Compare(b.by[by], a.by[by])
		if t.columns[by].grows {
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

// fit returns the width of each column on a screen, 0 for those that have no room.
func (t *table) fit(width int) []int {
	widths := make([]int, len(t.columns))
	need := make([]int, len(t.columns))
	for i, c := range t.columns {
		need[i] = max(harmless.Width(c.name), c.width)
		for _, r := range t.rows {
			need[i] = max(need[i], harmless.Width(r.cells[i]))
		}
		if c.most > 0 {
			need[i] = min(need[i], c.most)
		}
		widths[i] = need[i]
		if c.grows {
			widths[i] = max(min(c.width, need[i]), harmless.Width(c.name))
		}
	}
	for rest(widths, width) < 0 {
		worst := -1
		for i, c := range t.columns {
			if widths[i] > 0 && c.must > 0 && (worst < 0 || c.must > t.columns[worst].must) {
				worst = i
			}
		}
		if worst < 0 {
			break
		}
		widths[worst] = 0
	}
	for left := rest(widths, width); left > 0; left-- { // one to each in turn
		thin := -1
		for i, c := range t.columns {
			if c.grows && widths[i] > 0 && widths[i] < need[i] && (thin < 0 || widths[i] < widths[thin]) {
				thin = i
			}
		}
		if thin < 0 {
			break
		}
		widths[thin]++
	}
	return widths
}

// rest is how many columns of the screen are free.
func rest(widths []int, width int) int {
	for _, w := range widths {
		if w > 0 {
			width -= w + 1
		}
	}
	return width + 1
}

// draw draws the names of the columns and the rows into the lines from y up to end. chosen
// is the row that is marked, -1: none; sorted the column to point at.
func (t *table) draw(f *Frame, y, end, chosen, sorted int) {
	widths := t.fit(f.Width)
	f.line(y, Strong, "")
	t.cells(f, y, widths, Strong, func(i int) string {
		if i == sorted {
			return t.columns[i].name + "*"
		}
		return t.columns[i].name
	})
	y++
	first := max(0, chosen-(end-y)+1)
	for i := first; i < len(t.rows) && y < end; i++ {
		style := t.rows[i].style
		if i == chosen {
			style = Marked
			f.line(y, style, "")
		}
		t.cells(f, y, widths, style, func(c int) string { return t.rows[i].cells[c] })
		y++
	}
}

// cells draws a line: numbers to the right, texts to the left.
func (t *table) cells(f *Frame, y int, widths []int, style Style, text func(int) string) {
	x := 0
	for i, w := range widths {
		if w == 0 {
			continue
		}
		cell := text(i)
		at := x
		if !t.columns[i].grows {
			at += max(0, w-harmless.Width(cell))
		}
		f.put(at, y, x+w, style, cell)
		x += w + 1
	}
}
