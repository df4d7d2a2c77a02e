package http1

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

// append writes the lines, but for the names that are skipped.
func (l List) append(b []byte, skips func(name string) bool) []byte {
	for i := range l {
		if !skips(l[i].Canonical) {
			b = appendLines(b, l[i].Written, l[i].Values)
		}
	}
	return b
}
