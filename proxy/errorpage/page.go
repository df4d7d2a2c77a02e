// Package errorpage makes the pages that people see when the proxy itself answers, because it rejects the
// request or the backend doesn't answer.
//
// Load executes the templates once and makes all pages: one for each template (of a host, or of all hosts),
// language and Cause. The pages have gaps for the values that differ from request to request: the request's id,
// the client's own address, and the time after which to try again. To answer a request, the proxy only has to
// find the page and copy its pieces with these values between them.
//
// A template may show these values anywhere, even in a script, so they must be harmless everywhere: they
// consist of letters, digits and the signs of ids and addresses. The caller checks ids, which clients send.
package errorpage

import (
	"net/http"
	"strconv"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/text/language"
)

// Cause is the reason why a request is not served.
type Cause uint8

// The causes.
const (
	DebtOfAddress Cause = iota // the client's address is in debt
	DebtOfNetwork              // the client's network is in debt
	DebtOfProgram              // the client's User-Agent is in debt
	DebtOfGroup                // a key of an administrator's class is in debt
	DebtOfDomain               // like DebtOfGroup, but with status 503, as other Smockron gatekeepers use
	ClientFull                 // the client's large headers or unread answers take too much memory
	OverLimit                  // the client made more requests than a limit allows
	ServerFull                 // too many requests are waiting
	Busy                       // the request's turn did not come in time
	BusyOwn                    // like Busy, but because the client's other requests used its share
	BackendDown                // the backend doesn't answer
	BackendSlow                // the backend takes too long
	Circle                     // the backend's address leads to this proxy
	Unsound                    // the request isn't valid HTTP
	UnsoundBody                // the request's body isn't valid
	Incomplete                 // the rest of the request did not arrive
	WrongMethod                // the proxy doesn't support the method
)

// causes is the number of causes.
const causes = int(WrongMethod) + 1

// Status returns the HTTP status of the answer.
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

// String returns the cause's name in templates.
func (c Cause) String() string {
	return [causes]string{
		"debt-of-address", "debt-of-network", "debt-of-program", "debt-of-group", "debt-of-domain", "client-full", "over-limit",
		"server-full", "busy", "busy-own", "backend-down", "backend-slow", "circle", "unsound", "unsound-body", "incomplete", "wrong-method",
	}[c]
}

// waits reports whether the answer says when to try again.
func (c Cause) waits() bool { return c <= BusyOwn }

// namesClient reports whether the page may name the client's own address or network.
func (c Cause) namesClient() bool { return c == DebtOfAddress || c == DebtOfNetwork }

// Set holds all pages. Its methods may be called concurrently.
type Set struct {
	matcher language.Matcher
	// chosen remembers which language fits an Accept-Language. Finding the language takes ten microseconds, as
	// long as the rest of a refusal, and browsers send few different values.
	chosen *lru.Cache[string, int]
	hosts  map[string]pages // pages by host; those of forAllHosts are for all other hosts
}

// pages are the pages of a template, by language and cause.
type pages [][causes]*Page

const (
	// longestAsked is the number of bytes of Accept-Language that are read. Browsers send about 40.
	longestAsked = 64
	// remembered is the number of values of Accept-Language that a Set remembers.
	remembered = 256
)

// Find returns the page for a host, with or without a port, and for the request's Accept-Language lines (RFC
// 9110, 12.5.4).
func (s *Set) Find(host string, acceptLanguage []string, c Cause) *Page {
	of, ok := s.hosts[hostOf(host)]
	if !ok {
		of = s.hosts[forAllHosts]
	}
	in := 0
	if len(acceptLanguage) > 0 {
		in = s.choose(acceptLanguage[0])
	}
	return of[in][c]
}

// choose returns the index of the language that fits best, or 0, the first language, if none fits.
func (s *Set) choose(asked string) (index int) {
	if len(asked) > longestAsked { // ends before a language that would be cut
		asked = asked[:max(0, strings.LastIndexByte(asked[:longestAsked], ','))]
	}
	if index, ok := s.chosen.Get(asked); ok {
		return index
	}
	if tags, _, err := language.ParseAcceptLanguage(asked); err == nil {
		if _, best, confidence := s.matcher.Match(tags...); confidence > language.No {
			index = best
		}
	}
	s.chosen.Add(strings.Clone(asked), index) // the original would keep the whole header alive
	return index
}

// hostOf returns a host without its port, in lower case.
func hostOf(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// Page is one page in one language, complete except for its holes. It never changes.
type Page struct {
	language   string
	html, text holed
	texts      *texts // texts for the time to wait
}

// Values fill the holes of a page. They are not escaped.
type Values struct {
	RequestID  string // id of the request; only letters, digits and -_.:=+/@
	Client     string // the client's own address or network
	RetryAfter int    // seconds after which to try again; 0: unknown
}

// hole is a place in a page that is filled for each request. When Load executes a template, the page gets a
// mark in this place. The mark consists only of letters and digits, which need no escaping anywhere. A template
// gets a pointer to the hole: it can print the mark or test for the hole, but can't compare or cut the mark.
type hole struct{ kind byte }

// mark is the beginning of each hole's mark; the hole's kind follows.
const mark = "Q7tempomat"

// String implements fmt.Stringer, for templates. It returns an empty text if the hole is nil.
func (h *hole) String() string {
	if h == nil {
		return ""
	}
	return mark + string(h.kind)
}

// The kinds of holes.
const (
	requestID  = 'I'
	client     = 'C'
	retryAfter = 'S' // time to wait in seconds
	wait       = 'W' // time to wait in words
)

// holed is a text that is cut before each hole. Every piece except the first begins with the kind of a hole.
type holed []string

func cut(text string) holed { return strings.Split(text, mark) }

// appendTo appends the text with its holes filled.
func (h holed) appendTo(b []byte, t *texts, v *Values) []byte {
	b = append(b, h[0]...)
	for _, piece := range h[1:] {
		switch piece[0] {
		case requestID:
			b = append(b, v.RequestID...)
		case client:
			b = append(b, v.Client...)
		case retryAfter:
			b = strconv.AppendInt(b, int64(v.RetryAfter), 10)
		case wait:
			b = t.appendWait(b, v.RetryAfter)
		}
		b = append(b, piece[1:]...)
	}
	return b
}

// Language returns the page's language as a BCP 47 tag.
func (p *Page) Language() string { return p.language }

// AppendHTML appends the page with its holes filled, as HTML in UTF-8.
func (p *Page) AppendHTML(b []byte, v *Values) []byte { return p.html.appendTo(b, p.texts, v) }

// AppendText appends the content of the page as plain text: what happened, and what to do.
func (p *Page) AppendText(b []byte, v *Values) []byte { return p.text.appendTo(b, p.texts, v) }
