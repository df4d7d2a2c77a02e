package harmless

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// JSON escapes what is not printable in a JSON document; JSON itself lets terminal commands
// of the C1 range through. The document means the same after.
func JSON(document []byte) string {
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
