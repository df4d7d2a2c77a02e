package http1

import (
	"bytes"
	"net/textproto"
	"slices"
	"strings"
)

// maxFields bounds how many fields a head or trailers have.
const maxFields = 1000

// errFold is a line that begins with a space where none may: it would belong to the one
// before it.
var errFold = Malformed("a field that goes on in a second line")

// Field is a line of a head, or of trailers: its name as it was written, the key that it is found by,
// which is the name as package net/http writes it, and its value.
type Field struct{ Name, Key, Value string }

// Fields is a header, or trailers, in the order in which they were written. To go through a list takes
// less than through a map, and most have a dozen lines.
type Fields []Field

// Get is the first value of a key; empty: it is not there, or has none.
func (f Fields) Get(key string) string {
	if i := f.find(key); i >= 0 {
		return f[i].Value
	}
	return ""
}

// Has reports whether a key is there.
func (f Fields) Has(key string) bool { return f.find(key) >= 0 }

// Values is the values of a key; nil: it is not there.
func (f Fields) Values(key string) (values []string) {
	for i := range f {
		if f[i].Key == key {
			values = append(values, f[i].Value)
		}
	}
	return values
}

// Set has a key have one value: where it is first, or at the end.
func (f *Fields) Set(key, value string) {
	i := f.find(key)
	if i < 0 {
		f.Add(key, value)
		return
	}
	(*f)[i].Value = value
	rest := (*f)[i+1:]
	*f = (*f)[:i+1+len(slices.DeleteFunc(rest, func(x Field) bool { return x.Key == key }))]
}

// Add adds a line at the end.
func (f *Fields) Add(key, value string) { *f = append(*f, Field{key, key, value}) }

// Del takes a key out.
func (f *Fields) Del(key string) {
	if f.Has(key) {
		*f = slices.DeleteFunc(*f, func(x Field) bool { return x.Key == key })
	}
}

// Len is the number of fields.
func (f Fields) Len() int { return len(f) }

// Name is the key of a field, by its place in the order in which they came.
func (f Fields) Name(at int) string { return f[at].Key }

// find is where a key is first; negative: nowhere.
func (f Fields) find(key string) int {
	for i := range f {
		if f[i].Key == key {
			return i
		}
	}
	return -1
}

// usualFields is how many fields a head has at most whose memory is used again.
const usualFields = 128

// Emptied is a list without fields, whose memory is used again unless it is large. Nothing is left behind
// its end either: it may have been longer, and a field keeps the memory of its whole head.
func (f Fields) Emptied() Fields {
	if cap(f) > usualFields {
		return nil
	}
	clear(f[:cap(f)])
	return f[:0]
}

// Append writes the lines, except for those whose keys are skipped; nil: all.
func (f Fields) Append(b []byte, skips func(key string) bool) []byte {
	for i := range f {
		if skips == nil || !skips(f[i].Key) {
			b = AppendField(b, f[i].Name, f[i].Value)
		}
	}
	return b
}

// Announced is the keys that a head tells of trailers (RFC 9110, 6.6.2), as many as a request may have.
func (f Fields) Announced() (keys []string) {
	for i := range f {
		if f[i].Key != "Trailer" {
			continue
		}
		for name := range strings.SplitSeq(f[i].Value, ",") {
			if len(keys) == FewTrailers {
				return keys
			}
			if key := Key(strings.TrimSpace(name)); key != "" && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// Key is a name as package net/http writes it.
func Key(name string) string { return textproto.CanonicalMIMEHeaderKey(name) }

// appendFields appends the fields that the lines are, the empty last one included.
func appendFields(fields Fields, lines string) (Fields, error) {
	for {
		i := strings.IndexByte(lines, '\n')
		if i < 0 {
			return nil, Malformed("a head without an end")
		}
		line := trimEnd(lines[:i])
		if lines = lines[i+1:]; len(line) == 0 {
			return fields, nil
		}
		if isSpace(line[0]) {
			return nil, errFold
		}
		f, err := parseField(line)
		if err != nil {
			return nil, err
		}
		if len(fields) == maxFields {
			return nil, Malformed("too many fields")
		}
		fields = append(fields, f)
	}
}

// unfold makes one line of those that go on in a second one (obs-fold of RFC 9112, 5.2), in place. The
// first one cannot.
func unfold(lines []byte) {
	for from := 0; ; {
		i := bytes.IndexByte(lines[from:], '\n')
		if i < 0 || from+i+1 == len(lines) {
			return
		}
		end := from + i
		if from = end + 1; !isSpace(lines[from]) {
			continue
		}
		if lines[end] = ' '; end > 0 && lines[end-1] == '\r' {
			lines[end-1] = ' '
		}
	}
}

func parseField(line string) (f Field, err error) {
	colon := strings.IndexByte(line, ':') // a tenth faster for a whole head than Cut
	if colon <= 0 {
		return f, Malformed("a field without a name")
	}
	f.Name, f.Value = line[:colon], trimSpace(line[colon+1:])
	if !IsToken(f.Name) {
		return f, Malformed("the name of a field is no token")
	}
	if !IsText(f.Value) {
		return f, Malformed("a control character in the value of a field")
	}
	f.Key = Key(f.Name)
	return f, nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

func trimSpace[T string | []byte](s T) T {
	for len(s) > 0 && isSpace(s[0]) {
		s = s[1:]
	}
	for len(s) > 0 && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

// IsToken reports whether a text is a token (RFC 9110, 5.6.2).
func IsToken[T string | []byte](s T) bool {
	for i := range len(s) {
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return len(s) > 0
}

// IsText reports whether a text has no control character but tabs: some end the line at one.
func IsText[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// HasToken reports whether a list has a token, in any case of letters.
func HasToken(list, token string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if is(trimSpace(item), token) {
			return true
		}
	}
	return false
}

// isTokenByte reports whether a character may be part of a token (RFC 9110, 5.6.2).
func isTokenByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-':
		return true
	}
	return strings.IndexByte("!#$%&'*+.^_`|~", c) >= 0
}
