package http1

import (
	"bytes"
	"net/http"
	"strings"
)

// maxHead bounds the head of an answer, in bytes.
const maxHead = 256 << 10

// Framing is how the end of a body is found.
type Framing uint8

// The framings (RFC 9112, 6.3).
const (
	Empty    Framing = iota // there is none
	Length                  // after so many bytes
	Chunked                 // as it says itself
	UntilEnd                // with the connection
)

// Response is the head of an answer.
type Response struct {
	Status  int
	Reason  string // may be empty
	Fields  Fields
	Framing Framing
	Length  int64 // of the body; negative: unknown
	// KeepAlive: the connection serves another request after that one.
	KeepAlive bool
}

// ReadResponse reads the head of an answer to a request with that method, and keeps
// the fields in r.Fields, of which it uses the memory again. After a 101 the rest
// is no HTTP. An error is one of the connection, or an ErrMalformed.
func (b *Buffer) ReadResponse(r *Response, method string) error {
	head, err := b.head(maxHead)
	if err != nil {
		return err
	}
	if _, fields, ok := bytes.Cut(head, []byte{'\n'}); ok {
		unfold(fields)
	}
	line, rest, _ := strings.Cut(string(head), "\n")
	line = trimEnd(line)
	minor, status, err := parseStatus(line)
	if err != nil {
		return err
	}
	fields, err := appendFields(r.Fields[:0], rest)
	if err != nil {
		return err
	}
	*r = Response{Status: status, Reason: reason(line), Fields: fields}
	return r.frame(method, minor)
}

// parseStatus reads "HTTP/1.1 200 OK"; the reason may be missing.
func parseStatus(line string) (minor, status int, err error) {
	const version = "HTTP/1."
	bad := Malformed("no status line of HTTP/1")
	if len(line) < len("HTTP/1.1 200") || line[:len(version)] != version || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return 0, 0, bad
	}
	if minor = int(line[7]) - '0'; minor < 0 || minor > 9 {
		return 0, 0, bad
	}
	n, ok := parseDigits(line[9:12])
	if !ok || n < 100 {
		return 0, 0, bad
	}
	return minor, int(n), nil
}

// reason is what a status line says for people, if it may be said again.
func reason(line string) string {
	const before = len("HTTP/1.1 200 ")
	said := line[min(before, len(line)):]
	if !IsText(said) {
		return ""
	}
	return said
}

// frame finds out how the end of the body is found, and what becomes of the
// connection then.
func (r *Response) frame(method string, minor int) error {
	length, chunked := int64(-1), false
	stays, closes := minor >= 1, false
	for _, f := range r.Fields {
		switch f.Key {
		case "Content-Length":
			n, ok := parseLength(f.Value)
			if !ok || length >= 0 && n != length {
				return Malformed("a length that is no number, or several")
			}
			length = n
		case "Transfer-Encoding":
			if chunked || !is(f.Value, "chunked") {
				return Malformed("a transfer coding other than chunked")
			}
			chunked = true
		case "Connection":
			closes = closes || HasToken(f.Value, "close")
			stays = stays || HasToken(f.Value, "keep-alive")
		}
	}
	r.KeepAlive = stays && !closes
	if chunked { // next to a length, or where there were no chunks yet, it is not to be trusted (RFC 9112, 6.1)
		r.KeepAlive = r.KeepAlive && length < 0 && minor >= 1
		length = -1
	}
	r.Length = length
	if announces := chunked || length > 0; announces && r.Status < 200 && r.Status != http.StatusSwitchingProtocols {
		return Malformed("an answer before the final one that has a body") // which would be read as the final one
	} else if announces && r.Status == http.StatusNoContent {
		r.KeepAlive = false // it has none, but one may follow
	}
	switch {
	case method == http.MethodHead, r.Status < 200, r.Status == http.StatusNoContent, r.Status == http.StatusNotModified:
		r.Framing = Empty
	case chunked:
		r.Framing = Chunked
	case length > 0:
		r.Framing = Length
	case length == 0:
		r.Framing = Empty
	default:
		r.Framing, r.KeepAlive = UntilEnd, false
	}
	return nil
}

// is reports whether a text is a word of ASCII, in any case of letters. A text of the same
// length has no others: to package strings the Kelvin sign is a k as well.
func is(s, word string) bool { return len(s) == len(word) && strings.EqualFold(s, word) }

// parseLength reads the length of an answer (RFC 9110, 8.6). Several that are alike, as a server behind
// the server may have added its own, count as one.
func parseLength(s string) (n int64, ok bool) {
	first, rest, more := strings.Cut(s, ",")
	n, ok = parseDigits(trimSpace(first))
	for ok && more {
		var next string
		next, rest, more = strings.Cut(rest, ",")
		same, isNumber := parseDigits(trimSpace(next))
		ok = isNumber && same == n
	}
	return n, ok
}

// parseDigits reads a number of 1 to 18 digits.
func parseDigits(s string) (n int64, ok bool) {
	if len(s) == 0 || len(s) > 18 {
		return 0, false
	}
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0, false
		}
		n = 10*n + int64(s[i]-'0')
	}
	return n, true
}
