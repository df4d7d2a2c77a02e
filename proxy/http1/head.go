// Package http1 reads and writes messages of HTTP/1.1 (RFC 9112), and does nothing else. It opens
// no connections, starts no goroutines and reads no clock. It parses a message in the buffer that
// it was read into.
//
// # Request smuggling
//
// A connection is a sequence of bytes, and each side must find out for itself where one message ends and
// the next one begins. If two sides disagree, one of them finds a message in bytes that the other one
// considers a body. Between a proxy and a backend, an attacker can use such a disagreement to bypass the
// proxy's checks, or to give an answer to another client (request smuggling). Therefore this package
// rejects everything that can be understood in two ways. After such an error, the connection can't be used
// any more. The package rejects:
//
//   - A length that occurs twice, or isn't a plain number. Readers that use the first one and
//     readers that use the last one disagree (CL.CL). An answer may have the same length in two
//     fields, because a server behind the server adds its own; a request may not.
//   - A transfer coding other than chunked, alone and once. Readers that don't know it use the
//     length (TE.TE). A request that has both a coding and a length is refused (CL.TE, TE.CL),
//     and so are chunks in HTTP/1.0.
//   - A name that isn't a token, for example one with a space before the colon. Some readers see
//     a different name there, and some see none.
//   - A line of a head that begins with a space. Some readers append it to the line before it,
//     and some treat it as a field.
//   - A control character in a name or a value, because some readers end the line there.
//   - A request line that isn't three words with one space between them. Some readers use the
//     last word as the version and some the third, so they would serve a different target from
//     the one that was checked. A target therefore has no space, no control character and no fragment,
//     and a version is literally HTTP/1.x.
//   - No host, several hosts, or one with characters that site names don't contain. Caches and limits
//     depend on the host.
//   - A chunk whose size isn't a plain number of at most 63 bits, or whose data doesn't end where
//     the size says. One reader would see a size where another one sees data. For the same reason
//     the lines of a body end in CR LF. Those of a head may end in LF alone (RFC 9112, 2.2).
//   - Bytes after the end of an answer. They would become the answer to the next request.
//
// If an answer has both a length and a transfer coding, the coding counts (RFC 9112, 6.3), the
// length isn't passed on, and the connection isn't reused. The sender of a message always writes
// its own framing.
//
// # Files
//
//	head.go      reads the head of a client's request
//	request.go   writes the head of a request to the backend, status lines and chunks
//	response.go  reads the head of an answer
//	field.go     header fields
//	chunked.go   reads a body in chunks
//	buffer.go    the memory that a message is read into and parsed in
package http1

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
)

// RequestHead is the head of a request. All its texts are substrings of one string.
type RequestHead struct {
	Method, Target, Host string
	Minor                int // minor version in HTTP/1.Minor; later versions count as 1
	Fields               Fields
	// Size is the length of this string, in bytes.
	Size int
	// Framing is Empty, Length or Chunked.
	Framing Framing
	Length  int64 // length of the body; negative: unknown
	// KeepAlive is true if the client may send another request after this one.
	KeepAlive bool
	// Expects is true if the client waits for a 100 (Continue) before it sends the body (RFC 9110, 10.1.1).
	Expects bool
}

// ReadRequest reads the head of a request. most is the largest size, in bytes. It reuses the memory of r.Fields. An
// error is either a connection error (io.EOF if the connection ended before a request began), or an ErrMalformed,
// for which StatusOf returns the status. After an error, the connection can't be used any more.
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

// skipEmptyLine skips an empty line, which some clients send after a body (RFC 9112, 2.2).
func (b *Buffer) skipEmptyLine() error {
	if b.Buffered() == 0 {
		if err := b.fill(1); errors.Is(err, io.ErrUnexpectedEOF) {
			return io.EOF // the connection ended between two messages
		} else if err != nil {
			return err
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

// parseLine parses a line such as "GET /path HTTP/1.1", with exactly one space between the words.
func (r *RequestHead) parseLine(line string) error {
	method, rest, ok := strings.Cut(line, " ")
	target, version, ok2 := strings.Cut(rest, " ")
	switch {
	case isProxyHeader(line):
		return Malformed("a PROXY protocol header instead of a request line: this address does not expect one (proxyProtocol of listen)")
	case !ok || !ok2 || !IsToken(method):
		return Malformed("no request line")
	case !IsTarget(target):
		return Malformed("a target that isn't a URL")
	case len(version) != len("HTTP/1.1") || version[:5] != "HTTP/" || version[6] != '.' || !isDigit(version[5]) || !isDigit(version[7]):
		return Malformed("no request line")
	case version[5] != '1':
		return &fault{http.StatusHTTPVersionNotSupported, "a version other than HTTP/1"}
	}
	r.Method, r.Target = method, target
	r.Minor = min(int(version[7]-'0'), 1)
	return nil
}

// isProxyHeader reports whether a line begins a PROXY protocol header. Version 1 begins with the word PROXY.
// Version 2 begins with two empty lines, the first of which was skipped.
func isProxyHeader(line string) bool {
	return line == "" || strings.HasPrefix(line, "PROXY TCP") || strings.HasPrefix(line, "PROXY UNKNOWN")
}

// IsTarget reports whether a text may be the target of a request. It must not contain a character that may
// end a target or a line, or a fragment, which isn't part of a target (RFC 9112, 3.2). Bytes beyond ASCII are
// allowed because old browsers sent them.
func IsTarget(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == 0x7f || c == '#' {
			return false
		}
	}
	return s != ""
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// frame finds out where the body ends, and whether the connection can be reused after it. A field that occurs
// twice is an error, even with the same value, because no honest client sends it twice.
func (r *RequestHead) frame() error {
	hosts, lengths, codings, conn := 0, 0, 0, options{stays: r.Minor > 0}
	r.Length = -1
	for _, f := range r.Fields {
		switch f.Key {
		case "Host":
			hosts++
			r.Host = f.Value
		case "Content-Length":
			n, ok := parseDigits(f.Value)
			if lengths++; !ok {
				return Malformed("a length that isn't a number")
			}
			r.Length = n
		case "Transfer-Encoding":
			if codings++; !is(f.Value, "chunked") {
				return &fault{http.StatusNotImplemented, "a transfer coding other than chunked"}
			}
		case "Connection":
			if !conn.add(f.Value) {
				return errOptions
			}
		case "Expect":
			if !is(f.Value, "100-continue") {
				return ErrExpectation
			}
			r.Expects = r.Minor > 0 // HTTP/1.0 has no 100 (Continue)
		}
	}
	switch {
	case hosts > 1, hosts == 0 && r.Minor > 0:
		return Malformed("no host, or several hosts")
	case len(r.Host) > 0 && !IsHost(r.Host):
		return Malformed("an invalid host")
	case lengths+codings > 1:
		return Malformed("more than one length or transfer coding")
	case codings > 0 && r.Minor == 0:
		return Malformed("chunks in HTTP/1.0")
	}
	r.KeepAlive = conn.keepAlive()
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

// IsHost reports whether a text can be the host of a request, with or without a port (RFC 9110, 7.2; RFC 3986,
// 3.2.2). A name may have only the characters of site names, because some servers would read a name with other
// characters differently.
func IsHost(s string) bool {
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

// cutPort splits off the port, which follows the first colon outside brackets.
func cutPort(s string) (name, port string) {
	brackets := strings.IndexByte(s, ']') + 1
	name, port, _ = strings.Cut(s[brackets:], ":")
	return s[:brackets+len(name)], port
}

// isLiteral reports whether a text that begins with "[" is an IPv6 address in brackets.
func isLiteral(s string) bool {
	inner, ok := strings.CutSuffix(s[1:], "]")
	if !ok || strings.Contains(inner, "%") {
		return false // netip would keep the zone, of any length, in memory
	}
	a, err := netip.ParseAddr(inner)
	return err == nil && a.Is6()
}

// HostName returns the host of a request without its port, or an empty string if the host is
// invalid.
func HostName(host string) string {
	if !IsHost(host) {
		return ""
	}
	name, _ := cutPort(host)
	return name
}
