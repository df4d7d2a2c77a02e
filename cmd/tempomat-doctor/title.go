package main

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// printable escapes, as Go does, what a terminal would not just print: clients
// choose their User-Agent, and must not command the administrator's terminal.
func printable(title string) string {
	quoted := strconv.Quote(title)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// cut shortens a line to a width, the last column a ~ if anything went. Letters
// beyond the alphabets, from Hangul on, count as two columns, as wide ones
// take; some are narrower, then a little room stays free. Width 0 is without
// limit.
func cut(line string, width int) string {
	if width == 0 {
		return line
	}
	columns, end := 0, 0 // end: where the ~ goes if it is needed
	for i, r := range line {
		w := 1
		if r >= 0x1100 {
			w = 2
		}
		if columns+w > width {
			return line[:end] + "~"
		}
		columns += w
		if columns < width { // the ~ still fits after this letter
			end = i + len(string(r))
		}
	}
	return line
}

// plainJSON escapes what is not printable in a JSON document; JSON itself lets
// terminal commands of the C1 range through. The document means the same after.
func plainJSON(document []byte) string {
	var out strings.Builder
	for _, r := range string(document) {
		switch {
		case r == '\n' || r == '\t' || unicode.IsPrint(r):
			out.WriteRune(r)
		case r < 0x10000:
			out.WriteString(jsonEscape(r))
		default:
			high, low := utf16.EncodeRune(r)
			out.WriteString(jsonEscape(high) + jsonEscape(low))
		}
	}
	return out.String()
}

func jsonEscape(r rune) string {
	hex := strconv.FormatInt(int64(r), 16)
	return `\u` + strings.Repeat("0", 4-len(hex)) + hex
}
