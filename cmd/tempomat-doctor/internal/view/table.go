package view

import (
	"fmt"
	"io"
	"strings"
)

// Column is one of a table.
type Column struct {
	Name  string
	Width int  // least; of one that grows: what it needs to be of use
	Grows bool // it is text, on the left, and takes what the others leave
	Most  int  // as far as it grows; 0: as far as its texts need
	Must  int  // columns that do not fit go, those with the greatest number first; 0: it stays
}

// Table is rows of cells below the names of their columns. Its texts are harmless.
type Table struct {
	Title   string
	Columns []Column
	Rows    [][]string
	Gap     int // spaces between columns
}

// NewTable is a table whose last column is text, and whose others are numbers.
func NewTable(title string, columns ...string) *Table {
	t := &Table{Title: Text(title), Gap: 2}
	for i, name := range columns {
		c := Column{Name: name, Width: 7} // room for 9999.99: the columns seldom move
		if i == len(columns)-1 {
			c = Column{Name: name, Grows: true}
		}
		t.Columns = append(t.Columns, c)
	}
	return t
}

// Add adds a row, of what clients may have chosen.
func (t *Table) Add(cells ...string) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = Text(cell)
	}
	t.Rows = append(t.Rows, row)
}

// Print prints the table, cut at a width; 0 is without limit.
func (t *Table) Print(w io.Writer, width int) {
	fmt.Fprintln(w, Cut("|"+t.Title, width))
	for _, line := range t.Lines(width) {
		fmt.Fprintln(w, line)
	}
}

// Lines are the column names and the rows, as wide as necessary, and at most width; 0 is no
// limit.
func (t *Table) Lines(width int) []string {
	const unlimited = 1 << 30
	if width == 0 {
		width = unlimited
	}
	widths := t.fit(width)
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	lines := []string{Cut(t.line(widths, names), width)}
	for _, row := range t.Rows {
		lines = append(lines, Cut(t.line(widths, row), width))
	}
	return lines
}

// line puts cells below one another: numbers to the right, texts to the left.
func (t *Table) line(widths []int, cells []string) string {
	var b strings.Builder
	for i, w := range widths {
		if w == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(strings.Repeat(" ", t.Gap))
		}
		cell := Cut(cells[i], w)
		space := strings.Repeat(" ", w-Width(cell))
		if t.Columns[i].Grows {
			b.WriteString(cell + space)
		} else {
			b.WriteString(space + cell)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// fit returns the width of each column on a screen, 0 for those that have no room.
func (t *Table) fit(width int) []int {
	widths := make([]int, len(t.Columns))
	need := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		need[i] = max(Width(c.Name), c.Width)
		for _, row := range t.Rows {
			need[i] = max(need[i], Width(row[i]))
		}
		if c.Most > 0 {
			need[i] = min(need[i], c.Most)
		}
		widths[i] = need[i]
		if c.Grows {
			widths[i] = max(min(c.Width, need[i]), Width(c.Name))
		}
	}
	for t.rest(widths, width) < 0 {
		worst := -1
		for i, c := range t.Columns {
			if widths[i] > 0 && c.Must > 0 && (worst < 0 || c.Must > t.Columns[worst].Must) {
				worst = i
			}
		}
		if worst < 0 {
			break
		}
		widths[worst] = 0
	}
	for left := t.rest(widths, width); left > 0; left-- { // one to each in turn
		thin := -1
		for i, c := range t.Columns {
			if c.Grows && widths[i] > 0 && widths[i] < need[i] && (thin < 0 || widths[i] < widths[thin]) {
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
func (t *Table) rest(widths []int, width int) int {
	for _, w := range widths {
		if w > 0 {
			width -= w + t.Gap
		}
	}
	return width + t.Gap
}

// Pairs are names with their values, a line each.
type Pairs struct{ all [][2]string }

// Add adds one, of what clients may have chosen.
func (p *Pairs) Add(name, format string, args ...any) {
	p.all = append(p.all, [2]string{Text(name), Text(fmt.Sprintf(format, args...))})
}

// Lines are the pairs, the values below one another.
func (p *Pairs) Lines() (lines []string) {
	widest := 0
	for _, pair := range p.all {
		widest = max(widest, Width(pair[0]))
	}
	for _, pair := range p.all {
		lines = append(lines, pair[0]+strings.Repeat(" ", widest-Width(pair[0])+2)+pair[1])
	}
	return lines
}

// Print prints them.
func (p *Pairs) Print(w io.Writer) {
	for _, line := range p.Lines() {
		fmt.Fprintln(w, line)
	}
}
