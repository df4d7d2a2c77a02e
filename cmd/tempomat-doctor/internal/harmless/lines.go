package harmless

import (
	"strings"
	"unicode"
)

// Lines is a text of perhaps several lines, such as an error's: what answers at a socket may
// say anything. What is quoted in it already stays as it is.
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
