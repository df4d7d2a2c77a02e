package view

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"
)

// mostMarks is how many accents a letter may carry: some scripts need two, and hundreds
// would paint over the lines above.
const mostMarks = 2

// Text escapes, in Go's notation, what a terminal would not simply print.
func Text(s string) string {
	quoted := strconv.Quote(s)
	quoted = strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	var out strings.Builder
	marks := 0
	for _, r := range quoted {
		if RuneWidth(r) == 0 {
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

// joins says that terminals disagree how wide the letter is next to others: selectors of
// variants, the later parts of Hangul syllables, letters of flags, tones of skin.
func joins(r rune) bool {
	return r >= 0xfe00 && r <= 0xfe0f || r >= 0xe0100 && r <= 0xe01ef ||
		r >= 0x1160 && r <= 0x11ff || r >= 0xd7b0 && r <= 0xd7ff ||
		r >= 0x1f1e6 && r <= 0x1f1ff || r >= 0x1f3fb && r <= 0x1f3ff
}

func escape(r rune) string {
	hex := strconv.FormatInt(int64(r), 16)
	if r < 0x10000 {
		return `\u` + strings.Repeat("0", 4-len(hex)) + hex
	}
	return `\U` + strings.Repeat("0", 8-len(hex)) + hex
}

// RuneWidth is how many columns a letter takes: 0, 1 or 2.
func RuneWidth(r rune) int {
	if r < 0x7f {
		return 1
	}
	return displaywidth.Rune(r)
}

// Width is how many columns a text takes.
func Width(s string) int {
	columns := 0
	for _, r := range s {
		columns += RuneWidth(r)
	}
	return columns
}

// Cut shortens a line to a width, the last column a ~ if anything went. Width 0 is
// without limit.
func Cut(line string, width int) string {
	if width == 0 {
		return line
	}
	columns, end := 0, 0 // end: where the ~ goes if it is needed
	for i, r := range line {
		columns += RuneWidth(r)
		if columns > width {
			return line[:end] + "~"
		}
		if columns < width { // the ~ still fits after this letter
			end = i + utf8.RuneLen(r)
		}
	}
	return line
}

// Wrap breaks a line at spaces. A line that is set in continues two columns deeper. Width 0 is
// without a terminal.
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
	empty := true // nothing stands on the line yet
	for _, word := range strings.SplitAfter(line[deep:], " ") {
		bare := strings.TrimRight(word, " ")
		if !empty && Width(now)+Width(bare) > width {
			lines = append(lines, strings.TrimRight(now, " "))
			now = after
		}
		for Width(now)+Width(bare) > width { // a word that is longer than a line
			part, left := split(bare, width-Width(now))
			lines = append(lines, now+part)
			now, bare, word = after, left, left+" "
		}
		now, empty = now+word, false
	}
	return append(lines, strings.TrimRight(now, " "))
}

// split divides a text at a width.
func split(s string, width int) (head, tail string) {
	columns := 0
	for i, r := range s {
		columns += RuneWidth(r)
		if columns > width && i > 0 {
			return s[:i], s[i:]
		}
	}
	return s, ""
}

// Lines is a text of perhaps several lines, such as an error's: a program at the socket may
// answer anything. Quoted parts stay as they are.
func Lines(s string) string {
	var out strings.Builder
	for line := range strings.SplitAfterSeq(s, "\n") {
		text, end := strings.CutSuffix(line, "\n")
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\t' }) {
			text = Text(text)
		}
		out.WriteString(text)
		if end {
			out.WriteByte('\n')
		}
	}
	return out.String()
}
