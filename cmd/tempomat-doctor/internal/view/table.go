package view

import (
	"fmt"
	"io"
	"strings"
)

// Column is a column of a Table.
type Column struct {
	Name  string
	Width int  // the smallest width
	Grows bool // whether the column contains left-aligned text, and takes the space that other columns leave
	Drop  int  // if the screen is too narrow, columns with the largest number are omitted first; 0: never
}

// row is a row of a Table.
type row struct {
	cells []string // by column, without anything that could control a terminal
	id    string   // distinguishes the row from the others
	of    string   // the question to send to explain; "" if there is none
	style Style
}

// Table contains rows of cells below the names of their columns.
type Table struct {
	Title   string
	Columns []Column
	gap     int // spaces between columns
	rows    []row
	total   int    // the number of rows that exist, of which the proxy sent only the first
	note    string // explains the table
}

// NewTable makes a table whose last column contains text, and whose other columns contain numbers.
func NewTable(title string, columns ...string) *Table {
	t := &Table{Title: Text(title), gap: 2}
	for i, name := range columns {
		c := Column{Name: name, Width: 7} // room for 9999.99, so columns seldom move
		if i == len(columns)-1 {
			c = Column{Name: name, Grows: true}
		}
		t.Columns = append(t.Columns, c)
	}
	return t
}

// Add adds a row. Clients may have chosen the texts of its cells.
func (t *Table) Add(cells ...string) { t.add(cells...) }

// add adds a row and returns it. It omits cells after the last column.
func (t *Table) add(cells ...string) *row {
	r := row{cells: make([]string, len(t.Columns))}
	for i := range r.cells {
		r.cells[i] = Text(cells[i])
	}
	t.rows = append(t.rows, r)
	return &t.rows[len(t.rows)-1]
}

// Print prints the table, cut to a width; 0 means no limit.
func (t *Table) Print(w io.Writer, width int) {
	fmt.Fprintln(w, Cut("|"+t.Title, width))
	for _, line := range t.Lines(width) {
		fmt.Fprintln(w, line)
	}
}

// Lines returns the names of the columns and the rows, at most width wide; 0 means no limit.
func (t *Table) Lines(width int) []string {
	if width == 0 {
		width = 1 << 30
	}
	widths, names := t.fit(width), row{}
	for _, c := range t.Columns {
		names.cells = append(names.cells, c.Name)
	}
	var lines []string
	for _, r := range append([]row{names}, t.rows...) {
		var b strings.Builder
		for i, w := range widths {
			if w == 0 {
				continue
			}
			if b.Len() > 0 {
				b.WriteString(strings.Repeat(" ", t.gap))
			}
			cell := Cut(r.cells[i], w)
			if space := strings.Repeat(" ", w-Width(cell)); t.Columns[i].Grows {
				b.WriteString(cell + space)
			} else {
				b.WriteString(space + cell)
			}
		}
		lines = append(lines, Cut(strings.TrimRight(b.String(), " "), width))
	}
	return lines
}

// fit returns the width of each column on a screen, or 0 for a column that has no room.
func (t *Table) fit(width int) []int {
	widths, need := make([]int, len(t.Columns)), make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = max(Width(c.Name), c.Width)
		need[i] = widths[i]
		for _, r := range t.rows {
			need[i] = max(need[i], Width(r.cells[i]))
		}
		if !c.Grows {
			widths[i] = need[i]
		}
	}
	free := func() int {
		left := width + t.gap
		for _, w := range widths {
			if w > 0 {
				left -= w + t.gap
			}
		}
		return left
	}
	for free() < 0 {
		last := 0
		for i, c := range t.Columns {
			if widths[i] > 0 && c.Drop > t.Columns[last].Drop {
				last = i
			}
		}
		if last == 0 {
			break
		}
		widths[last] = 0
	}
	for left := free(); left > 0; left-- { // the narrowest column becomes wider by one
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

// Pairs are names with values, each on a line.
type Pairs struct{ rows []row }

// Add adds a pair. Clients may have chosen either text.
func (p *Pairs) Add(name, format string, args ...any) {
	p.rows = append(p.rows, row{cells: []string{Text(name), Text(fmt.Sprintf(format, args...))}})
}

// Lines returns the pairs, with the values aligned.
func (p *Pairs) Lines() []string {
	t := &Table{gap: 2, Columns: []Column{{Width: 1, Grows: true}, {Width: 1, Grows: true}}, rows: p.rows}
	return t.Lines(0)[1:]
}

// Print prints the pairs.
func (p *Pairs) Print(w io.Writer) {
	for _, line := range p.Lines() {
		fmt.Fprintln(w, line)
	}
}
