package http1

import (
	"net/http"
	"net/textproto"
	"strings"
	"sync"
)

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
