package http1

import (
	"net/http"
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
