package classify

import "strings"

// maxListBytes is how much of a list of hops is looked at, from the right.
const maxListBytes = 4096

// hops reads a list header from its right end: several lines are one list, in
// order (RFC 9110, 5.3). It never looks at what stands to the left of the
// element it returns, so nothing that a client sends can change how the
// elements that proxies appended are read; in particular an open quote does
// not swallow them.
type hops struct {
	lines  []string // lines not begun yet
	line   string   // what is left of the line being read
	left   int      // bytes that may still be looked at
	quotes bool     // commas inside quoted strings do not separate
	inLine bool     // line holds an element not returned yet
	cut    bool     // the left end of line was cut off
}

// next is the next element that is not empty, and false at the end of the list
// or of what may be looked at.
func (h *hops) next() (string, bool) {
	for {
		if !h.inLine && !h.begin() {
			return "", false
		}
		comma := h.lastComma()
		element := trim(h.line[comma+1:])
		if comma == -1 {
			h.inLine = false
			if h.cut {
				return "", false // only a part of the element
			}
		} else {
			h.line = h.line[:comma]
		}
		if element != "" {
			return element, true
		}
	}
}

func (h *hops) begin() bool {
	if len(h.lines) == 0 || h.left <= 0 {
		return false
	}
	last := len(h.lines) - 1
	h.line, h.lines = h.lines[last], h.lines[:last]
	if h.cut = len(h.line) > h.left; h.cut {
		h.line = h.line[len(h.line)-h.left:]
	}
	h.left -= len(h.line) + 1 // an empty line costs something, too
	h.inLine = true
	return true
}

func (h *hops) lastComma() int {
	if !h.quotes {
		return strings.LastIndexByte(h.line, ',')
	}
	inside := false
	for i := len(h.line) - 1; i >= 0; i-- {
		switch h.line[i] {
		case '"':
			if !inside || !escaped(h.line, i) {
				inside = !inside
			}
		case ',':
			if !inside {
				return i
			}
		}
	}
	return -1
}

// escaped reports whether an odd number of backslashes stands before s[i].
func escaped(s string, i int) bool {
	odd := false
	for i--; i >= 0 && s[i] == '\\'; i-- {
		odd = !odd
	}
	return odd
}

// trim cuts optional white space (RFC 9110, 5.6.3).
func trim(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}
