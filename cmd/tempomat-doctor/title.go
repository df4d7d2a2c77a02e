package main

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"tempomat/cmd/tempomat-doctor/internal/harmless"
)

// printable escapes what a terminal would not just print: clients choose their
// User-Agent, and must not command the administrator's terminal.
func printable(title string) string { return harmless.Text(title) }

// cut shortens a line to a width, the last column a ~ if anything went. Width 0 is
// without limit.
func cut(line string, width int) string { return harmless.Cut(line, width) }

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
