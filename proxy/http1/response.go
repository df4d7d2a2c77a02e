package http1

import (
	"bytes"
	"net/http"
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

// Response is the head of an answer. Its fields lie in the Buffer.
type Response struct {
	Status  int
	Reason  []byte // may be empty
	Fields  []Field
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
	line, rest, _ := bytes.Cut(head, []byte{'\n'})
	line = trimEnd(line)
	minor, status, err := parseStatus(line)
	if err != nil {
		return err
	}
	fields, err := appendFields(r.Fields[:0], rest, true)
	if err != nil {
		return err
	}
	*r = Response{Status: status, Reason: reason(line), Fields: fields}
	return r.frame(method, minor)
}

// parseStatus reads "HTTP/1.1 200 OK"; the reason may be missing.
func parseStatus(line []byte) (minor, status int, err error) {
	const version = "HTTP/1."
	bad := Malformed("no status line of HTTP/1")
	if len(line) < len("HTTP/1.1 200") || string(line[:len(version)]) != version || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return 0, 0, bad
	}
	if minor = int(line[7]) - '0'; minor < 0 || minor > 9 {
		return 0, 0, bad
	}
	for _, c := range line[9:12] {
		if c < '0' || c > '9' {
			return 0, 0, bad
		}
		status = 10*status + int(c-'0')
	}
	if status < 100 {
		return 0, 0, bad
	}
	return minor, status, nil
}

// reason is what a status line says for people, if it may be said again.
func reason(line []byte) []byte {
	const before = len("HTTP/1.1 200 ")
	said := line[min(before, len(line)):]
	for _, c := range said {
		if c < ' ' && c != '\t' || c == 0x7f {
			return nil
		}
	}
	return said
}

// frame finds out how the end of the body is found, and what becomes of the
// connection then.
func (r *Response) frame(method string, minor int) error {
	length, chunked := int64(-1), false
	stays, closes := minor >= 1, false
	for _, f := range r.Fields {
		switch {
		case named(f, "Content-Length"):
			n, ok := parseLength(f.Value)
			if !ok || length >= 0 && n != length {
				return Malformed("a length that is no number, or several")
			}
			length = n
		case named(f, "Transfer-Encoding"):
			if chunked || !is(f.Value, "chunked") {
				return Malformed("a transfer coding other than chunked")
			}
			chunked = true
		case named(f, "Connection"):
			closes = closes || hasToken(f.Value, "close")
			stays = stays || hasToken(f.Value, "keep-alive")
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

// named tells whether a field has that name, in any case of letters.
func named(f Field, name string) bool { return is(f.Name, name) }

// is tells whether a text is a word of ASCII, in any case of letters. A text of the same
// length has no others: to package bytes the Kelvin sign is a k as well.
func is(p []byte, word string) bool {
	return len(p) == len(word) && bytes.EqualFold(p, []byte(word))
}

// parseLength reads a length (RFC 9110, 8.6): digits alone, 18 at most. Several that are alike,
// as a server behind the server may have added its own, count as one. It is a loop, as a head has
// room for so many that to call itself for each would take megabytes of stack.
func parseLength(p []byte) (n int64, ok bool) {
	first, p, more := bytes.Cut(p, []byte{','})
	n, ok = parseDigits(trimSpace(first))
	for ok && more {
		var next []byte
		next, p, more = bytes.Cut(p, []byte{','})
		same, isNumber := parseDigits(trimSpace(next))
		ok = isNumber && same == n
	}
	return n, ok
}

// parseDigits reads a number of 1 to 18 digits.
func parseDigits(p []byte) (n int64, ok bool) {
	if len(p) == 0 || len(p) > 18 {
		return 0, false
	}
	for _, c := range p {
		if !isDigit(c) {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

// hasToken tells whether a list has a token, in any case of letters.
func hasToken(list []byte, token string) bool {
	for more := true; more; {
		var item []byte
		item, list, more = bytes.Cut(list, []byte{','})
		if is(trimSpace(item), token) {
			return true
		}
	}
	return false
}
