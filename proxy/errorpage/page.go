package errorpage

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Page is one page in one language, ready but for its holes. It is never changed.
type Page struct {
	language string
	pieces   []piece
	texts    *texts // of the time to wait
}

// piece is what stands before a hole, and the hole; the last one has none.
type piece struct {
	text string
	hole *hole
}

// Values are what a page is filled with.
type Values struct {
	RequestID  string
	Client     string // the client's own address or network
	RetryAfter int    // seconds; 0: nothing is known
}

// hole is a place that is filled for each request. While a page is made, the hole's mark
// stands there. It is a pointer to a struct so that a template can only show it, or ask
// whether it is there: there is nothing yet to be compared, cut or counted.
type hole struct {
	mark string
	fill func(b []byte, p *Page, v *Values) []byte
}

// String implements fmt.Stringer, for templates.
func (h *hole) String() string {
	if h == nil {
		return ""
	}
	return h.mark
}

// MarshalJSON implements json.Marshaler, for templates with scripts.
func (h *hole) MarshalJSON() ([]byte, error) { return json.Marshal(h.String()) }

// holes are all there are. Marks are letters and digits only, that nothing escapes.
type holes struct{ requestID, client, retryAfter, wait *hole }

func newHoles() holes {
	return holes{
		&hole{"Q7tempomatRequestIDQ7", func(b []byte, _ *Page, v *Values) []byte { return append(b, harmless(v.RequestID)...) }},
		&hole{"Q7tempomatClientQ7", func(b []byte, _ *Page, v *Values) []byte { return append(b, harmless(v.Client)...) }},
		&hole{"Q7tempomatRetryAfterQ7", func(b []byte, _ *Page, v *Values) []byte { return strconv.AppendInt(b, int64(v.RetryAfter), 10) }},
		&hole{"Q7tempomatWaitQ7", func(b []byte, p *Page, v *Values) []byte { return p.texts.appendWait(b, v.RetryAfter) }},
	}
}

// longestValue bounds what is put into a page from outside, in bytes.
const longestValue = 64

// harmless is a text that means nothing in HTML, wherever it stands: an id or an address is
// one. In place of any other there is a dash.
func harmless(s string) string {
	const none = "-"
	if s == "" || len(s) > longestValue {
		return none
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-_.:=+/@", c) >= 0) {
			return none
		}
	}
	return s
}

// cut makes a page of a text with marks.
func (h *holes) cut(text, language string, t *texts) *Page {
	p := &Page{language: language, texts: t}
	for {
		at, next := len(text), (*hole)(nil)
		for _, x := range []*hole{h.requestID, h.client, h.retryAfter, h.wait} {
			if i := strings.Index(text, x.mark); i >= 0 && i < at {
				at, next = i, x
			}
		}
		p.pieces = append(p.pieces, piece{text[:at], next})
		if next == nil {
			return p
		}
		text = text[at+len(next.mark):]
	}
}

// size is how many bytes the page has without what fills it.
func (p *Page) size() (n int) {
	for _, x := range p.pieces {
		n += len(x.text)
	}
	return n
}

// Language is that of the page, as a tag of BCP 47.
func (p *Page) Language() string { return p.language }

// Append appends the page, filled, as HTML in UTF-8.
func (p *Page) Append(b []byte, v *Values) []byte {
	for i := range p.pieces {
		x := &p.pieces[i]
		b = append(b, x.text...)
		if x.hole != nil {
			b = x.hole.fill(b, p, v)
		}
	}
	return b
}

// Fault is what is wrong with a file of pages.
type Fault struct {
	File string
	Line int // 0: the file as a whole
	Says string
}

// Error implements error.
func (f *Fault) Error() string {
	if f.Line == 0 {
		return fmt.Sprintf("errorPages: %s: %s", f.File, f.Says)
	}
	return fmt.Sprintf("errorPages: %s:%d: %s", f.File, f.Line, f.Says)
}
