// Package errorpage makes the pages that people see where the proxy itself answers a
// request: it rejects the request, or the backend does not answer.
//
// All pages are made when a Set is loaded: for each template, which is that of a host or of
// all hosts, each language and each Cause. What differs from request to request is left out
// then, and put between the ready pieces when a page is asked for: the id of the request, the
// client's own address and the time after which to try again. So a request costs a look-up
// and a copy, and no template is executed for it.
//
// Only digits, letters and a few harmless signs are put in, whatever a caller gives, so that a
// page may use them at any place.
package errorpage

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// Cause is why a request is not served.
type Cause uint8

// The causes.
const (
	DebtOfAddress Cause = iota // the client's address owes
	DebtOfNetwork              // the network that it lies in does
	DebtOfProgram              // its User-Agent does
	DebtOfGroup                // a class of the administrator's does
	DebtOfDomain               // the same, with the status that other gatekeepers give
	ClientFull                 // too many requests of the client wait
	OverLimit                  // it made more requests than a limit allows
	ServerFull                 // too many requests wait
	Busy                       // its turn did not come in time
	BusyOwn                    // the same, and the client has what one may have
	BackendDown                // the backend does not answer
	BackendSlow                // it takes too long
	Circle                     // it is this proxy
	Unsound                    // the request is not valid HTTP
	UnsoundBody                // its body is not
	Incomplete                 // the rest of it did not come
	WrongMethod                // the proxy does not do that
)

// causes is how many there are.
const causes = int(WrongMethod) + 1

// Status is the status of the answer.
func (c Cause) Status() int {
	return [causes]int{
		DebtOfAddress: http.StatusTooManyRequests, DebtOfNetwork: http.StatusTooManyRequests,
		DebtOfProgram: http.StatusTooManyRequests, DebtOfGroup: http.StatusTooManyRequests,
		DebtOfDomain: http.StatusServiceUnavailable,
		ClientFull:   http.StatusTooManyRequests, OverLimit: http.StatusTooManyRequests,
		ServerFull: http.StatusServiceUnavailable, Busy: http.StatusServiceUnavailable, BusyOwn: http.StatusServiceUnavailable,
		BackendDown: http.StatusBadGateway, BackendSlow: http.StatusGatewayTimeout, Circle: http.StatusLoopDetected,
		Unsound: http.StatusBadRequest, UnsoundBody: http.StatusBadRequest,
		Incomplete: http.StatusRequestTimeout, WrongMethod: http.StatusMethodNotAllowed,
	}[c]
}

// String is the cause's name in templates.
func (c Cause) String() string {
	return [causes]string{
		"debt-of-address", "debt-of-network", "debt-of-program", "debt-of-group", "debt-of-domain", "client-full", "over-limit",
		"server-full", "busy", "busy-own", "backend-down", "backend-slow", "circle", "unsound", "unsound-body", "incomplete", "wrong-method",
	}[c]
}

// waits is whether the answer says when to try again.
func (c Cause) waits() bool { return c <= BusyOwn }

// namesClient is whether the page may name the client's own address or network.
func (c Cause) namesClient() bool { return c == DebtOfAddress || c == DebtOfNetwork }

// Set is all pages. Its methods may be called concurrently.
type Set struct {
	languages *languages
	general   pages
	hosts     map[string]pages
}

// pages are those of a template, by language and cause.
type pages [][causes]*Page

// Find is the page for a host, as a request gives it, with or without a port, and its
// Accept-Language lines.
func (s *Set) Find(host string, acceptLanguage []string, c Cause) *Page {
	asked := ""
	if len(acceptLanguage) > 0 {
		asked = acceptLanguage[0]
	}
	of := s.general
	if len(s.hosts) > 0 {
		if own, ok := s.hosts[hostOf(host)]; ok {
			of = own
		}
	}
	return of[s.languages.choose(asked)][c]
}

// hostOf is a host without its port, in small letters.
func hostOf(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// Page is one page in one language, ready except for its holes. It is never changed.
type Page struct {
	language string
	pieces   []piece
	texts    *texts // of the time to wait
}

// piece is the text before a hole, and the hole; the last one has none.
type piece struct {
	text string
	hole *hole
}

// Values are put into a page.
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

// holes are all there are. Marks are letters and digits only, which need no escaping.
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
