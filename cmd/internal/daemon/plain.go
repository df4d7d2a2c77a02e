package daemon

import (
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"go.uber.org/zap/zapcore"
)

// plainJSON writes lines of JSON on, in which what is not printable is escaped. JSON itself
// lets the terminal commands of the C1 range through, and what turns a line around; clients
// choose their URLs, and administrators look at logs in terminals. The lines mean the same.
type plainJSON struct{ zapcore.WriteSyncer }

// Write implements io.Writer; it is given whole lines.
func (w plainJSON) Write(line []byte) (int, error) {
	for i, c := range line {
		if c >= 0x7f {
			if _, err := w.WriteSyncer.Write(appendPlain(line[:i:i], line[i:])); err != nil {
				return 0, err
			}
			return len(line), nil
		}
	}
	return w.WriteSyncer.Write(line)
}

func appendPlain(to, text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case text[0] == '\n' || unicode.IsPrint(r) && r != utf8.RuneError:
			to = append(to, text[:n]...)
		case r < 0x10000:
			to = appendEscape(to, r)
		default:
			high, low := utf16.EncodeRune(r)
			to = appendEscape(appendEscape(to, high), low)
		}
		text = text[n:]
	}
	return to
}

func appendEscape(to []byte, r rune) []byte {
	hex := strconv.FormatInt(0x10000+int64(r), 16) // four digits behind the first
	return append(append(to, `\u`...), hex[1:]...)
}
