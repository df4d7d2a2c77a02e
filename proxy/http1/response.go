package http1

import (
	"net/http"
	"strings"
)

// maxHead bounds the head of an answer, in bytes.
const maxHead = 256 << 10

// Framing says how the end of a body is marked.
type Framing uint8

// The framings (RFC 9112, 6.3).
const (
	Empty    Framing = iota // there is no body
	Length                  // the body ends after Content-Length bytes
	Chunked                 // the body ends with the last chunk
	UntilEnd                // the body ends when the connection is closed
)

// Response is the head of an answer.
type Response struct {
	Status  int
	Reason  string // reason phrase, meant only for people; may be empty
	Fields  Fields
	Framing Framing
	Length  int64 // length of the body; negative: not announced
	// KeepAlive is true if the connection can serve another request after this one.
	KeepAlive bool
}

// ReadResponse reads the head of an answer to a request with the given method. It reuses the memory
// of r.Fields. Bytes after a 101 aren't HTTP. An error is either a connection error or an
// ErrMalformed.
func (b *Buffer) ReadResponse(r *Response, method string) error {
	head, err := b.head(maxHead)
	if err != nil {
		return err
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

// ErrNoStatus means that an answer doesn't begin with a status line.
var ErrNoStatus = Malformed("no HTTP/1 status line")

// parseStatus parses a line such as "HTTP/1.1 200 OK". The reason may be missing.
func parseStatus(line string) (minor, status int, err error) {
	const version = "HTTP/1."
	if len(line) < len("HTTP/1.1 200") || line[:len(version)] != version || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return 0, 0, ErrNoStatus
	}
	if minor = int(line[7]) - '0'; minor < 0 || minor > 9 {
		return 0, 0, ErrNoStatus
	}
	n, ok := parseDigits(line[9:12])
	if !ok || n < 100 {
		return 0, 0, ErrNoStatus
	}
	return minor, int(n), nil
}

// reason returns the reason in a status line, or an empty string if it has control characters.
func reason(line string) string {
	const before = len("HTTP/1.1 200 ")
	said := line[min(before, len(line)):]
	if !IsText(said) {
		return ""
	}
	return said
}

// frame finds out how the end of the body is marked, and whether the connection can then be reused.
func (r *Response) frame(method string, minor int) error {
	length, chunked := int64(-1), false
	conn := options{stays: minor >= 1}
	for _, f := range r.Fields {
		switch f.Key {
		case "Content-Length":
			n, ok := parseDigits(f.Value)
			if !ok || length >= 0 && n != length {
				return Malformed("a length that isn't a number, or several lengths")
			}
			length = n
		case "Transfer-Encoding":
			if chunked || !is(f.Value, "chunked") {
				return Malformed("a transfer coding other than chunked")
			}
			chunked = true
		case "Connection":
			if !conn.add(f.Value) {
				return errOptions
			}
		}
	}
	r.KeepAlive = conn.keepAlive()
	if chunked { // if there is also a length, or in HTTP/1.0, the backend may see the end somewhere else (RFC 9112, 6.1)
		r.KeepAlive = r.KeepAlive && length < 0 && minor >= 1
		length = -1
	}
	r.Length = length
	if announces := chunked || length > 0; announces && r.Status < 200 && r.Status != http.StatusSwitchingProtocols {
		return Malformed("an interim answer with a body") // its body would be read as the final answer
	} else if announces && r.Status == http.StatusNoContent {
		r.KeepAlive = false // the status allows no body, but the backend may send one
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

// is reports whether a text is an ASCII word, in upper or lower case. It compares lengths because package
// strings also treats the Kelvin sign, which has more bytes, as a k.
func is(s, word string) bool { return len(s) == len(word) && strings.EqualFold(s, word) }

// parseDigits parses a number of 1 to 18 digits.
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
