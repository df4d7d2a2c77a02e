// Package http1 reads and writes the messages of HTTP/1.1 (RFC 9112), and nothing
// else: it opens no connection, starts no goroutine and reads no clock. A message is
// looked at in the buffer that it was read to.
//
// # What smuggling is
//
// A connection is bytes. Where one message ends and the next one begins, each side
// has to find out for itself, and if two that share a connection disagree, what one
// of them takes for a body is a message to the other. Between a proxy and a backend
// that is a way to get an answer to another client, or past all that the proxy
// checks. So whatever could be understood in two ways is an error here, after which
// the connection is of no use any more:
//
//   - A length that occurs twice, or isn't a plain number: readers that use the first and
//     readers that use the last one disagree (CL.CL). In answers it may occur twice if it is
//     the same: a server behind the server adds its own. In requests it may not.
//   - A transfer coding other than chunked, alone and once: readers that do not know it use the
//     length (TE.TE). A request that has a length next to it is refused (CL.TE, TE.CL), and one
//     of HTTP/1.0 that has chunks.
//   - A name that is no token, also with a space before the colon: to some it is
//     another name, to some none.
//   - A line of a request's head that begins with a space: to some it belongs to the line
//     before it, to some it is one of its own. In answers it becomes one with that.
//   - A control character in a name or a value: some end the line there.
//   - A request line of other than three words, one space each: some take the last word
//     for the version, some the third, and another target is served than was looked at. So
//     a target has no space, no control character and no fragment, and a version is
//     HTTP/1.x to the letter.
//   - Not exactly one host, or one with characters that no site's name has: caches and limits
//     depend on which site is asked.
//   - A chunk whose size is no plain number that fits 63 bits, or whose data do not end
//     where the size says: what follows would be a size to one and data to another.
//     Lines of a body end in CR LF for the same reason. Those of a head may end in LF
//     alone (RFC 9112, 2.2).
//   - Bytes after the end of an answer: they would become the answer to the next request.
//
// Lengths next to an answer's transfer coding are not passed on: the coding counts (RFC 9112,
// 6.3), and the connection is not reused. The sender of a message always writes its framing
// again.
package http1

import (
	"net/http"
	"net/netip"
	"strings"
)

// RequestHead is the head of a request as it was read. All of its texts lie in one string.
type RequestHead struct {
	Method, Target, Host string
	Minor                int // of the version, HTTP/1.Minor: 0 or 1, which stands for all that are later
	Fields               Fields
	// Size is how many bytes that string has: spaces between a name and its value are among them.
	Size int
	// Framing is Empty, Length or Chunked.
	Framing Framing
	Length  int64 // of the body; negative: unknown
	// KeepAlive: the client may send another request after this one.
	KeepAlive bool
	// Expects: the client waits for a 100 before it sends the body (RFC 9110, 10.1.1).
	Expects bool
}

// ReadRequest reads the head of a request of at most so many bytes, and keeps the
// fields in r.Fields, of which it uses the memory again. An error is one of the
// connection, io.EOF if that ended before a request began, or an ErrMalformed, of
// which StatusOf tells how to answer it. The connection is of no use then.
func (b *Buffer) ReadRequest(r *RequestHead, most int) error {
	if err := b.skipEmptyLine(); err != nil {
		return err
	}
	head, err := b.head(most)
	if err != nil {
		return err
	}
	line, rest, _ := strings.Cut(string(head), "\n")
	*r = RequestHead{Fields: r.Fields[:0], Size: len(head)}
	if err := r.parseLine(trimEnd(line)); err != nil {
		return err
	}
	if r.Fields, err = appendFields(r.Fields, rest); err != nil {
		return err
	}
	return r.frame()
}

// skipEmptyLine skips one that some clients send after a body (RFC 9112, 2.2).
func (b *Buffer) skipEmptyLine() error {
	if b.Buffered() == 0 {
		if err := b.fill(1); err != nil {
			return endOf(err)
		}
	}
	if p := b.data[b.from:b.to]; p[0] == '\r' && len(p) == 1 {
		if err := b.fill(2); err != nil {
			return err
		}
	}
	switch p := b.data[b.from:b.to]; {
	case p[0] == '\n':
		b.from++
	case p[0] == '\r' && p[1] == '\n':
		b.from += 2
	}
	return nil
}

// parseLine reads "GET /path HTTP/1.1": one space each, nothing else between.
func (r *RequestHead) parseLine(line string) error {
	method, rest, ok := strings.Cut(line, " ")
	target, version, ok2 := strings.Cut(rest, " ")
	switch {
	case isProxyHeader(line):
		return Malformed("no request line, but as the PROXY protocol begins, which this address does not expect (proxyProtocol of listen)")
	case !ok || !ok2 || !IsToken(method):
		return Malformed("no request line")
	case !IsTarget(target):
		return Malformed("a target that is no URL")
	case len(version) != len("HTTP/1.1") || version[:5] != "HTTP/" || version[6] != '.' || !isDigit(version[5]) || !isDigit(version[7]):
		return Malformed("no request line")
	case version[5] != '1':
		return &statusFault{http.StatusHTTPVersionNotSupported, "a version other than HTTP/1"}
	}
	r.Method, r.Target = method, target
	r.Minor = min(int(version[7]-'0'), 1)
	return nil
}

// isProxyHeader reports whether a line is how a connection of the PROXY protocol begins:
// version 1 by its name, version 2 by an empty line after the one that was skipped.
func isProxyHeader(line string) bool {
	return line == "" || strings.HasPrefix(line, "PROXY TCP") || strings.HasPrefix(line, "PROXY UNKNOWN")
}

// IsTarget reports whether a text may be asked for: no character that ends it, or a line,
// for somebody, and no fragment, which is no part of it (RFC 9112, 3.2). Bytes beyond
// ASCII pass: browsers of old sent them.
func IsTarget(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == 0x7f || c == '#' {
			return false
		}
	}
	return s != ""
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// frame finds out where the body ends, and what becomes of the connection after it. A field
// that occurs twice is an error, even with the same value: no honest client sends that.
func (r *RequestHead) frame() error {
	hosts, lengths, codings, closes, stays := 0, 0, 0, false, r.Minor > 0
	r.Length = -1
	for _, f := range r.Fields {
		switch f.Key {
		case "Host":
			hosts++
			r.Host = f.Value
		case "Content-Length":
			n, ok := parseDigits(f.Value)
			if lengths++; !ok {
				return Malformed("a length that is no number")
			}
			r.Length = n
		case "Transfer-Encoding":
			if codings++; !is(f.Value, "chunked") {
				return &statusFault{http.StatusNotImplemented, "a transfer coding other than chunked"}
			}
		case "Connection":
			closes = closes || HasToken(f.Value, "close")
			stays = stays || HasToken(f.Value, "keep-alive")
		case "Expect":
			if !is(f.Value, "100-continue") {
				return &statusFault{http.StatusExpectationFailed, "an expectation other than 100-continue"}
			}
			r.Expects = r.Minor > 0 // clients that know it have HTTP/1.1
		}
	}
	switch {
	case hosts > 1, hosts == 0 && r.Minor > 0:
		return Malformed("not one host")
	case len(r.Host) > 0 && !IsHost(r.Host):
		return Malformed("a host that is none")
	case lengths+codings > 1:
		return Malformed("a body that ends in several places")
	case codings > 0 && r.Minor == 0:
		return Malformed("chunks in HTTP/1.0")
	}
	r.KeepAlive = stays && !closes
	switch {
	case codings > 0:
		r.Framing = Chunked
	case r.Length > 0:
		r.Framing = Length
	default:
		r.Framing, r.Length = Empty, 0
	}
	r.Expects = r.Expects && r.Framing != Empty
	return nil
}

// IsHost reports whether a text is the host of a request, with or without a port (RFC
// 9110, 7.2; RFC 3986, 3.2.2). Of a name only those letters are allowed that a name of a
// site has: with others it ends in another place for some, or is another name.
func IsHost[T string | []byte](s T) bool {
	name, port := cutPort(s)
	if len(name) == 0 || len(port) > 5 {
		return false
	}
	for i := range len(port) {
		if !isDigit(port[i]) {
			return false
		}
	}
	if name[0] == '[' {
		return isLiteral(name)
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', isDigit(c), c == '-', c == '.', c == '_', c == '~':
		default:
			return false
		}
	}
	return true
}

// cutPort cuts a port off: what is behind the first colon, or behind the first one
// after a bracket.
func cutPort[T string | []byte](s T) (name, port T) {
	inside := len(s) > 0 && s[0] == '['
	for i := range len(s) {
		switch {
		case s[i] == ']':
			inside = false
		case s[i] == ':' && !inside:
			return s[:i], s[i+1:]
		}
	}
	return s, s[:0]
}

// isLiteral reports whether a text that begins with a bracket is an IPv6 address in brackets.
func isLiteral[T string | []byte](s T) bool {
	if s[len(s)-1] != ']' {
		return false
	}
	inner := string(s[1 : len(s)-1])
	if strings.Contains(inner, "%") {
		return false // before parsing: netip would keep each zone in memory, of any length, until the next collection
	}
	a, err := netip.ParseAddr(inner)
	return err == nil && a.Is6()
}

// HostName is the host of a request without its port; empty if it is none.
func HostName(host string) string {
	if !IsHost(host) {
		return ""
	}
	name, _ := cutPort(host)
	return name
}
