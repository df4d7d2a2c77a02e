package top

import (
	"strings"

	"tempomat/cmd/tempomat-doctor/internal/harmless"
)

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

// put writes a text that is harmless already, and returns the column behind it. What does
// not fit into the columns up to end is cut, with a ~.
func (f *Frame) put(x, y, end int, style Style, text string) int {
	end = min(end, f.Width)
	if x < 0 || x >= end || y < 0 || y >= f.Height {
		return x
	}
	text = harmless.Cut(text, end-x)
	line := f.cells[y*f.Width : (y+1)*f.Width]
	for i, r := range text {
		letter := text[i : i+len(string(r))]
		width := harmless.RuneWidth(r)
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
