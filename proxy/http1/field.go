package http1

import (
	"net/textproto"
	"slices"
	"strings"
)

// maxFields is the largest number of fields in a head, and of trailers.
const maxFields = 1000

// errFold means that a line begins with a space. It is rejected because some servers append it to the previous line.
var errFold = Malformed("a field that continues on a second line")

// Field is a line of a head or of trailers. Name is as received. Key is the name as package net/http spells it,
// such as Content-Type.
type Field struct{ Name, Key, Value string }

// Fields is a header, or trailers, in the received order. Most headers have a dozen lines, which can be
// searched faster than a map.
type Fields []Field

// Get returns the first value of a key, or an empty string.
func (f Fields) Get(key string) string {
	if i := f.find(key); i >= 0 {
		return f[i].Value
	}
	return ""
}

// Has reports whether there is a field with this key.
func (f Fields) Has(key string) bool { return f.find(key) >= 0 }

// Values returns all values of a key.
func (f Fields) Values(key string) (values []string) {
	for i := range f {
		if f[i].Key == key {
			values = append(values, f[i].Value)
		}
	}
	return values
}

// Set gives a key a single value. It replaces the key's first field, or appends one if there is none.
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

// Add appends a field.
func (f *Fields) Add(key, value string) { *f = append(*f, Field{key, key, value}) }

// Del removes all fields with this key.
func (f *Fields) Del(key string) {
	if f.Has(key) {
		*f = slices.DeleteFunc(*f, func(x Field) bool { return x.Key == key })
	}
}

// find returns the index of the first field with this key, or -1.
func (f Fields) find(key string) int {
	for i := range f {
		if f[i].Key == key {
			return i
		}
	}
	return -1
}

// usualFields is the largest capacity of a list whose memory is reused.
const usualFields = 128

// Emptied returns the list without fields. It keeps the memory, unless the list is large. It clears the whole
// capacity, because the list may have been longer, and each leftover field would keep a whole head in memory.
func (f Fields) Emptied() Fields {
	if cap(f) > usualFields {
		return nil
	}
	clear(f[:cap(f)])
	return f[:0]
}

// Append writes the fields except for those that skips reports. If skips is nil, it writes all fields.
func (f Fields) Append(b []byte, skips func(key string) bool) []byte {
	for i := range f {
		if skips == nil || !skips(f[i].Key) {
			b = AppendField(b, f[i].Name, f[i].Value)
		}
	}
	return b
}

// Key returns a name as package net/http writes it.
func Key(name string) string { return textproto.CanonicalMIMEHeaderKey(name) }

// appendFields parses lines, including the empty last one, and appends the fields.
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

func parseField(line string) (f Field, err error) {
	if f.Name, f.Key = cutName(line); f.Name == "" {
		return f, Malformed("a field without a name, or with an invalid one")
	}
	if f.Value = trimSpace(line[len(f.Name)+1:]); !IsText(f.Value) {
		return f, Malformed("a control character in the value of a field")
	}
	return f, nil
}

// cutName returns the name before the colon, and its Key. Both are empty if there is no token before a colon. Most
// names are their own Key, so one loop checks everything.
func cutName(line string) (name, key string) {
	begins, usual := true, true
	for i := range len(line) {
		c := line[i]
		switch {
		case c == ':' && usual:
			return line[:i], line[:i]
		case c == ':':
			return line[:i], Key(line[:i])
		case !tokenBytes[c]:
			return "", ""
		case begins:
			usual = usual && !('a' <= c && c <= 'z')
		default:
			usual = usual && !('A' <= c && c <= 'Z')
		}
		begins = c == '-'
	}
	return "", ""
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
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return len(s) > 0
}

// IsText reports whether a text has no control characters except tabs. Some readers would end the line at
// one.
func IsText[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// HasToken reports whether a list contains a token, in upper or lower case.
func HasToken(list, token string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if is(trimSpace(item), token) {
			return true
		}
	}
	return false
}

// mostOptions bounds the number of options in the Connection fields of a head, because each option must be
// compared with the names of all fields. Software sends three or four.
const mostOptions = 32

var errOptions = Malformed("too many connection options")

// options are the contents of the Connection fields of a head (RFC 9110, 7.6.1).
type options struct {
	n             int
	stays, closes bool
}

// add adds the value of a field. It returns false if there are too many options.
func (o *options) add(list string) bool {
	if o.n += 1 + strings.Count(list, ","); o.n > mostOptions {
		return false
	}
	o.closes = o.closes || HasToken(list, "close")
	o.stays = o.stays || HasToken(list, "keep-alive")
	return true
}

// keepAlive reports whether the connection serves another request.
func (o *options) keepAlive() bool { return o.stays && !o.closes }

// tokenBytes are the characters that a token may have (RFC 9110, 5.6.2). With a table, parsing a head takes a sixth less time.
//
//nolint:gochecknoglobals // a constant
var tokenBytes = func() (is [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") {
		is[c] = true
	}
	return is
}()
