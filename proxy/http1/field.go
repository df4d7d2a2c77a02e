package http1

import (
	"bytes"
	"net/http"
)

// maxFields bounds how many fields a head or trailers have.
const maxFields = 1000

// errFold is a line that begins with a space where none may: it would belong to the one
// before it.
var errFold = malformed("a field that goes on in a second line")

// Field is a line of a head, or of trailers.
type Field struct{ Name, Value []byte }

// appendFields appends the fields that the lines are, the empty last one included.
// Lines that go on (obs-fold of RFC 9112, 5.2) become one, in place, if that may be.
func appendFields(fields []Field, lines []byte, mayFold bool) ([]Field, error) {
	for {
		i := bytes.IndexByte(lines, '\n')
		if i < 0 {
			return nil, malformed("a head without an end")
		}
		line, rest := trimEnd(lines[:i]), lines[i+1:]
		if len(line) == 0 {
			return fields, nil
		}
		for len(rest) > 0 && isSpace(rest[0]) {
			if !mayFold {
				return nil, errFold
			}
			next := bytes.IndexByte(rest, '\n')
			if next == -1 {
				return nil, malformed("a head without an end")
			}
			for j := len(line); j <= i; j++ {
				lines[j] = ' '
			}
			i += next + 1
			line, rest = trimEnd(lines[:i]), lines[i+1:]
		}
		f, err := parseField(line)
		if err != nil {
			return nil, err
		}
		if len(fields) == maxFields {
			return nil, malformed("too many fields")
		}
		fields, lines = append(fields, f), rest
	}
}

func parseField(line []byte) (f Field, err error) {
	colon := bytes.IndexByte(line, ':') // a tenth faster for a whole head than Cut
	if colon <= 0 {
		return f, malformed("a field without a name")
	}
	f.Name, f.Value = line[:colon], trimSpace(line[colon+1:])
	if !IsToken(f.Name) {
		return f, malformed("the name of a field is no token")
	}
	for _, c := range f.Value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return f, malformed("a control character in the value of a field")
		}
	}
	return f, nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

func trimSpace(p []byte) []byte {
	for len(p) > 0 && isSpace(p[0]) {
		p = p[1:]
	}
	for len(p) > 0 && isSpace(p[len(p)-1]) {
		p = p[:len(p)-1]
	}
	return p
}

// IsToken tells whether a text is a token (RFC 9110, 5.6.2).
func IsToken[T string | []byte](s T) bool {
	for i := range len(s) {
		if !isToken(s[i]) {
			return false
		}
	}
	return len(s) > 0
}

// isToken tells whether a character may be part of a token (RFC 9110, 5.6.2).
func isToken(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
		return true
	}
	return bytes.IndexByte([]byte("!#$%&'*+.^_`|~"), c) >= 0
}

// Header makes a header of fields, which takes nothing of the buffer with it, and tells the
// order of their names.
func Header(fields []Field) (http.Header, []Name) {
	var t Text
	t.grow(fields, 0, 0)
	h := make(http.Header, len(fields))
	return h, t.Collect(h, fields, make([]string, 0, len(fields)), make([]Name, 0, len(fields)))
}
