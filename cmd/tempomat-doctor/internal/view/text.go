package view

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/clipperhouse/displaywidth"
)

// mostMarks is the most accents that a letter may have. Some scripts need two. Hundreds would cover the lines
// above.
const mostMarks = 2

// Text escapes, in Go's notation, everything that a terminal wouldn't print as a plain character.
func Text(s string) string {
	quoted := strconv.Quote(s)
	quoted = strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	var out strings.Builder
	marks := 0
	for _, r := range quoted {
		if displaywidth.Rune(r) == 0 {
			marks++
		} else {
			marks = 0
		}
		if marks > mostMarks || joins(r) {
			out.WriteString(escape(r))
			continue
		}
		out.WriteRune(r)
	}
	return out.String()
}

// joins reports whether a character's width is uncertain because only some terminals join it to the previous one. Such
// characters are variation selectors, later parts of Hangul syllables, letters of flags, and skin tones.
func joins(r rune) bool {
	return r >= 0xfe00 && r <= 0xfe0f || r >= 0xe0100 && r <= 0xe01ef ||
		r >= 0x1160 && r <= 0x11ff || r >= 0xd7b0 && r <= 0xd7ff ||
		r >= 0x1f1e6 && r <= 0x1f1ff || r >= 0x1f3fb && r <= 0x1f3ff
}

func escape(r rune) string { return strings.Trim(strconv.QuoteToASCII(string(r)), `"`) }

// Width returns the number of columns that a text takes.
func Width(s string) int { return displaywidth.String(s) }

// cutMark marks the end of a text that was cut.
const cutMark = "…"

// Cut shortens a line to a width, and marks a shortened line at its end. Width 0 means no limit.
func Cut(line string, width int) string {
	if width == 0 {
		return line
	}
	return displaywidth.TruncateString(line, width, cutMark)
}

// Wrap breaks a line at spaces. Continuation lines have the indentation of the line, plus two columns if the
// line is indented. Width 0 means 100 columns.
func Wrap(line string, width int) (lines []string) {
	if width == 0 {
		width = 100
	}
	if Width(line) <= width || width < 20 {
		return []string{line}
	}
	deep := len(line) - len(strings.TrimLeft(line, " "))
	now := strings.Repeat(" ", min(deep, width/2))
	after := now
	if deep > 0 {
		after += "  "
	}
	empty := true // the current line contains no word yet
	for _, word := range strings.SplitAfter(line[deep:], " ") {
		bare := strings.TrimRight(word, " ")
		if !empty && Width(now)+Width(bare) > width {
			lines = append(lines, strings.TrimRight(now, " "))
			now = after
		}
		for Width(now)+Width(bare) > width { // a word that is longer than a line
			part := displaywidth.TruncateString(bare, width-Width(now), "")
			lines = append(lines, now+part)
			now, bare = after, bare[len(part):]
			word = bare + " "
		}
		now, empty = now+word, false
	}
	return append(lines, strings.TrimRight(now, " "))
}

// Paragraph prints a text that a client may have chosen, wrapped.
func Paragraph(w io.Writer, text string, width int) {
	for _, line := range Wrap(Text(text), width) {
		fmt.Fprintln(w, line)
	}
}

// Lines escapes a text of several lines, such as an error, because the program at the other end of the
// socket may send anything. It doesn't change printable lines.
func Lines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) && r != '\t' }) {
			lines[i] = Text(line)
		}
	}
	return strings.Join(lines, "\n")
}
