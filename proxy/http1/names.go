package http1

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// Name is that of a field: as it was written, and as package net/http writes it.
type Name struct{ Written, Canonical string }

// fewNames is up to how many it is quicker to look through a list of names.
const fewNames = 32

// AppendHeader writes a header, but for the names that are skipped: first those in the
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
	names := appendOthers(buffer[:0], h, order, skips)
	slices.Sort(names)
	for _, name := range names {
		b = appendLines(b, name, h[name])
	}
	return b
}

// appendOthers appends the names of a header that are not in an order.
func appendOthers(names []string, h http.Header, order []Name, skips func(string) bool) []string {
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

// Text is one string for all that is kept of a head: what is taken from it takes nothing
// of the buffer with it.
type Text struct{ all strings.Builder }

// Grow makes room for fields, and for so many bytes more.
func (t *Text) Grow(fields []Field, more int) {
	for _, f := range fields {
		more += len(f.Name) + len(f.Value)
	}
	t.all.Grow(more)
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
		if before := h[name.Canonical]; before != nil {
			h[name.Canonical] = append(before, value)
			continue
		}
		values = append(values, value)
		h[name.Canonical] = values[len(values)-1 : len(values) : len(values)]
		order = append(order, name)
	}
	return order
}
