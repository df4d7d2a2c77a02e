package main

import (
	"fmt"
	"io"
	"strings"

	"tempomat/cmd/tempomat-doctor/internal/harmless"
)

// grid is a table as it is printed: a title, the names of the columns, the rows.
type grid struct {
	title string
	lines [][]string // the names first; the last column is the text
}

// note is a line of its own below a row.
func (g *grid) note(text string) { g.lines = append(g.lines, []string{text}) }

func (g *grid) add(cells ...string) { g.lines = append(g.lines, cells) }

// print prints it. Numbers are to the right, the text of the last column to the
// left, and cut off at the width; 0 is without limit.
func (g grid) print(w io.Writer, width int) {
	last := len(g.lines[0]) - 1
	widths := make([]int, last)
	for i := range widths {
		widths[i] = 7 // room for 9999.99: the columns seldom move
		for _, line := range g.lines {
			if len(line) == 1 {
				continue
			}
			widths[i] = max(widths[i], len(line[i]))
		}
	}
	fmt.Fprintln(w, harmless.Cut("|"+g.title, width))
	for _, line := range g.lines {
		if len(line) == 1 {
			fmt.Fprintln(w, harmless.Cut("         "+line[0], width))
			continue
		}
		var text strings.Builder
		for i, columns := range widths {
			fmt.Fprintf(&text, "%*s  ", columns, line[i])
		}
		text.WriteString(line[last])
		fmt.Fprintln(w, harmless.Cut(strings.TrimRight(text.String(), " "), width))
	}
}
