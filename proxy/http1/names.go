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
