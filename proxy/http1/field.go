package http1

import (
	"bytes"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"sync"
)

// maxFields bounds how many fields a head or trailers have.
const maxFields = 1000

// errFold is a line that begins with a space where none may: it would belong to the one
// before it.
var errFold = Malformed("a field that goes on in a second line")

// Field is a line of a head, or of trailers.
type Field struct{ Name, Value []byte }

// appendFields appends the fields that the lines are, the empty last one included.
// Lines that go on (obs-fold of RFC 9112, 5.2) become one, in place, if that may be.
func appendFields(fields []Field, lines []byte, mayFold bool) ([]Field, error) {
	for {
		i := bytes.IndexByte(lines, '\n')
		if i < 0 {
			return nil, Malformed("a head without an end")
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
				return nil, Malformed("a head without an end")
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
			return nil, Malformed("too many fields")
		}
		fields, lines = append(fields, f), rest
	}
}

func parseField(line []byte) (f Field, err error) {
	colon := bytes.IndexByte(line, ':') // a tenth faster for a whole head than Cut
	if colon <= 0 {
		return f, Malformed("a field without a name")
	}
	f.Name, f.Value = line[:colon], trimSpace(line[colon+1:])
	if !IsToken(f.Name) {
		return f, Malformed("the name of a field is no token")
	}
	for _, c := range f.Value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return f, Malformed("a control character in the value of a field")
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
		if !isTokenByte(s[i]) {
			return false
		}
	}
	return len(s) > 0
}

// isTokenByte tells whether a character may be part of a token (RFC 9110, 5.6.2).
func isTokenByte(c byte) bool {
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

// List is a header as it is written: in its order, each name once and as it is spelled. To
// go through one takes less than through a map, and most have a dozen lines.
type List []Line

// Line is a name in a List, with its values, of which each is written as a field.
type Line struct {
	Name
	Values []string
}

// Get is the values of a name, as package net/http writes that; nil: it is not there.
func (l List) Get(name string) []string {
	if i := l.find(name); i >= 0 {
		return l[i].Values
	}
	return nil
}

// Set has a name have these values: where it is, or at the end.
func (l *List) Set(name string, values []string) {
	if i := l.find(name); i >= 0 {
		(*l)[i].Values = values
		return
	}
	*l = append(*l, Line{Name{name, name}, values})
}

// find is where a name is; negative: nowhere.
func (l List) find(name string) int {
	for i := range l {
		if l[i].Canonical == name {
			return i
		}
	}
	return -1
}

// Emptied is a List without lines, whose memory is used again unless it is large.
func (l List) Emptied() List {
	if cap(l) > 2*UsualFields {
		return nil
	}
	clear(l)
	return l[:0]
}

// append writes the lines, except for the names that are skipped.
func (l List) append(b []byte, skips func(name string) bool) []byte {
	for i := range l {
		if !skips(l[i].Canonical) {
			b = appendLines(b, l[i].Written, l[i].Values)
		}
	}
	return b
}

// Name is that of a field: as it was written, and as package net/http writes it.
type Name struct{ Written, Canonical string }

// fewNames is up to how many it is quicker to look through a list of names.
const fewNames = 32

// AppendHeader writes a header, except for the names that are skipped: first those in the
// order, as they were written there, then what was added to them, sorted, so that a message
// always looks the same. The order has no name twice.
func AppendHeader(b []byte, h http.Header, order []Name, skips func(name string) bool) []byte {
	left := len(h)
	for _, name := range order {
		values, ok := h[name.Canonical]
		if !ok {
			continue
		}
		left--
		if !skips(name.Canonical) {
			b = appendLines(b, name.Written, values)
		}
	}
	if left == 0 {
		return b
	}
	var buffer [fewNames]string
	names := AppendOthers(buffer[:0], h, order, skips)
	slices.Sort(names)
	for _, name := range names {
		b = appendLines(b, name, h[name])
	}
	return b
}

// AppendOthers appends the names of a header that are not in an order.
func AppendOthers(names []string, h http.Header, order []Name, skips func(string) bool) []string {
	isIn := func(name string) bool {
		return slices.ContainsFunc(order, func(n Name) bool { return n.Canonical == name })
	}
	if len(order) > fewNames {
		set := make(map[string]bool, len(order))
		for _, name := range order {
			set[name.Canonical] = true
		}
		isIn = func(name string) bool { return set[name] }
	}
	for name := range h {
		if !skips(name) && !isIn(name) {
			names = append(names, name)
		}
	}
	return names
}

func appendLines(b []byte, name string, values []string) []byte {
	for _, v := range values {
		b = AppendField(b, name, v)
	}
	return b
}

// Announced is the names that a head tells of trailers (RFC 9110, 6.6.2), without values; nil:
// it tells none.
func Announced(h http.Header) (names http.Header) {
	for _, line := range h["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); name == "" {
				continue
			}
			if names == nil {
				names = make(http.Header)
			}
			names[name] = nil
		}
	}
	return names
}

// UsualFields is how many fields a head has at most for which memory is lent, and used
// again.
const UsualFields = 64

// Emptied is a header without fields, for Text.Collect. A large one is not used again: a map
// does not become smaller, and to clear it and to look through it takes as long as when it
// was full.
func Emptied(h http.Header) http.Header {
	if h == nil || len(h) > UsualFields {
		return make(http.Header, UsualFields/4)
	}
	clear(h)
	return h
}

// CommonName finds the names that most messages have, in their usual spelling. It gives
// them as package net/http writes them.
func CommonName(name []byte) (string, bool) {
	if s, ok := nameInBoth(name); ok {
		return s, true
	}
	if s, ok := nameInRequests(name); ok {
		return s, true
	}
	return nameInAnswers(name)
}

// nameInRequests finds those that requests have.
func nameInRequests(name []byte) (string, bool) {
	switch string(name) { // the compiler makes no string of it
	case "Accept":
		return "Accept", true
	case "Accept-Encoding":
		return "Accept-Encoding", true
	case "Accept-Language":
		return "Accept-Language", true
	case "Authorization":
		return "Authorization", true
	case "Cookie":
		return "Cookie", true
	case "Expect":
		return "Expect", true
	case "Host":
		return "Host", true
	case "If-Modified-Since":
		return "If-Modified-Since", true
	case "If-None-Match":
		return "If-None-Match", true
	case "Origin":
		return "Origin", true
	case "Priority":
		return "Priority", true
	case "Range":
		return "Range", true
	case "Referer":
		return "Referer", true
	case "Sec-Ch-Ua":
		return "Sec-Ch-Ua", true
	case "Sec-Ch-Ua-Mobile":
		return "Sec-Ch-Ua-Mobile", true
	case "Sec-Ch-Ua-Platform":
		return "Sec-Ch-Ua-Platform", true
	case "Sec-Fetch-Dest":
		return "Sec-Fetch-Dest", true
	case "Sec-Fetch-Mode":
		return "Sec-Fetch-Mode", true
	case "Sec-Fetch-Site":
		return "Sec-Fetch-Site", true
	case "Sec-Fetch-User":
		return "Sec-Fetch-User", true
	case "Upgrade-Insecure-Requests":
		return "Upgrade-Insecure-Requests", true
	case "User-Agent":
		return "User-Agent", true
	case "X-Requested-With":
		return "X-Requested-With", true
	}
	return "", false
}

// nameInAnswers finds those that answers have.
func nameInAnswers(name []byte) (string, bool) {
	switch string(name) { // the compiler makes no string of it
	case "Accept-Ranges":
		return "Accept-Ranges", true
	case "Content-Disposition":
		return "Content-Disposition", true
	case "Content-Encoding":
		return "Content-Encoding", true
	case "Date":
		return "Date", true
	case "ETag":
		return "Etag", true
	case "Expires":
		return "Expires", true
	case "Keep-Alive":
		return "Keep-Alive", true
	case "Last-Modified":
		return "Last-Modified", true
	case "Link":
		return "Link", true
	case "Location":
		return "Location", true
	case "Server":
		return "Server", true
	case "Set-Cookie":
		return "Set-Cookie", true
	case "Vary":
		return "Vary", true
	case "X-Powered-By":
		return "X-Powered-By", true
	}
	return "", false
}

// nameInBoth finds those that both have.
func nameInBoth(name []byte) (string, bool) {
	switch string(name) { // the compiler makes no string of it
	case "Cache-Control":
		return "Cache-Control", true
	case "Connection":
		return "Connection", true
	case "Content-Length":
		return "Content-Length", true
	case "Content-Type":
		return "Content-Type", true
	case "Pragma":
		return "Pragma", true
	case "Transfer-Encoding":
		return "Transfer-Encoding", true
	case "Upgrade":
		return "Upgrade", true
	case "X-Forwarded-For":
		return "X-Forwarded-For", true
	case "X-Forwarded-Host":
		return "X-Forwarded-Host", true
	case "X-Forwarded-Proto":
		return "X-Forwarded-Proto", true
	}
	return "", false
}

// textSize is how much memory the strings of several heads share.
const textSize = 8 << 10

// Texts lends Text, of which one serves many heads, a short while each. The zero Texts is
// ready for use; its methods may be called concurrently.
type Texts struct{ pool sync.Pool }

// Borrow returns a Text with room for the fields, and for so many bytes more.
func (s *Texts) Borrow(fields []Field, more int) *Text {
	t, ok := s.pool.Get().(*Text)
	if !ok {
		t = new(Text)
	}
	t.grow(fields, more, textSize)
	return t
}

// Return takes it back. The strings stay what they are.
func (s *Texts) Return(t *Text) { s.pool.Put(t) }

// Text makes strings of what lies in a buffer, which take nothing of that with them. They lie
// one behind the other: a string that is kept keeps the memory of its neighbours, and who
// keeps one for long makes a copy. It is for one goroutine at a time.
type Text struct{ all strings.Builder }

// grow makes room for fields, and for so many bytes more: what is left, or new memory of
// that size at least.
func (t *Text) grow(fields []Field, more, least int) {
	for _, f := range fields {
		more += len(f.Name) + len(f.Value)
	}
	if t.all.Cap()-t.all.Len() < more {
		t.all.Reset()
		t.all.Grow(max(more, least))
	}
}

// Of is a string of some bytes.
func (t *Text) Of(p []byte) string {
	at := t.all.Len()
	t.all.Write(p)
	return t.all.String()[at:]
}

func (t *Text) name(p []byte) Name {
	common, ok := CommonName(p)
	if ok && common == string(p) { // the compiler makes no string of it
		return Name{common, common}
	}
	written := t.Of(p)
	if ok {
		return Name{written, common}
	}
	return Name{written, textproto.CanonicalMIMEHeaderKey(written)}
}

// Collect fills an empty header with fields, and returns the order of their names. It uses
// the memory of values and of order, as far as that goes.
func (t *Text) Collect(h http.Header, fields []Field, values []string, order []Name) []Name {
	values, order = values[:0], order[:0]
	for _, f := range fields {
		name, value := t.name(f.Name), t.Of(f.Value)
		if isCollected(h, order, name.Canonical) {
			h[name.Canonical] = append(h[name.Canonical], value)
			continue
		}
		values = append(values, value)
		h[name.Canonical] = values[len(values)-1 : len(values) : len(values)]
		order = append(order, name)
	}
	return order
}

// isCollected tells whether a header, which has the names of order, has one of that name.
func isCollected(h http.Header, order []Name, name string) bool {
	if len(order) > fewNames {
		_, has := h[name]
		return has
	}
	for i := range order {
		if order[i].Canonical == name {
			return true
		}
	}
	return false
}
