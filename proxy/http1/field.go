package http1

import (
	"bytes"
	"net/http"
)

// maxFields bounds how many fields a head or trailers have.
const maxFields = 1000

// Field is a line of a head, or of trailers.
type Field struct{ Name, Value []byte }

// appendFields appends the fields that the lines are, the empty last one included.
// Lines that go on (obs-fold of RFC 9112, 5.2) become one, in place.
func appendFields(fields []Field, lines []byte) ([]Field, error) {
	for {
		i := bytes.IndexByte(lines, '\n')
		if i < 0 {
			return nil, malformed("a head without an end")
		}
		line, rest := trimEnd(lines[:i]), lines[i+1:]
		if len(line) == 0 {
			return fields, nil
		}
		for len(rest) > 0 && isSpace(rest[0]) {
			next := bytes.IndexByte(rest, '\n')
			if next < 0 {
				return nil, malformed("a head without an end")
			}
			for j := len(line); j <= i; j++ {
				lines[j] = ' '
			}
			i += next + 1
			line, rest = trimEnd(lines[:i]), lines[i+1:]
		}
		f, err := parseField(line)
		if err != nil {
			return nil, err
		}
		if len(fields) == maxFields {
			return nil, malformed("too many fields")
		}
		fields, lines = append(fields, f), rest
	}
}

func parseField(line []byte) (f Field, err error) {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 {
		return f, malformed("a field without a name")
	}
	f.Name, f.Value = line[:colon], trimSpace(line[colon+1:])
	if !IsToken(f.Name) {
		return f, malformed("the name of a field is no token")
	}
	for _, c := range f.Value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return f, malformed("a control character in the value of a field")
		}
	}
	return f, nil
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

func trimSpace(p []byte) []byte {
	for len(p) > 0 && isSpace(p[0]) {
		p = p[1:]
	}
	for len(p) > 0 && isSpace(p[len(p)-1]) {
		p = p[:len(p)-1]
	}
	return p
}

// IsToken tells whether a text is a token (RFC 9110, 5.6.2).
func IsToken[T string | []byte](s T) bool {
	for i := range len(s) {
		if !isToken(s[i]) {
			return false
		}
	}
	return len(s) > 0
}

// isToken tells whether a character may be part of a token (RFC 9110, 5.6.2).
func isToken(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) >= 0
}

// Header makes a header of fields, which takes nothing of the buffer with it, and tells the
// order of their names.
func Header(fields []Field) (http.Header, []Name) {
	h := make(http.Header, len(fields))
	return h, NewText(fields, 0).Collect(h, fields, make([]string, 0, len(fields)), make([]Name, 0, len(fields)))
}

// CommonName finds the names that most messages have, in their usual spelling.
func CommonName(name []byte) (string, bool) {
	switch string(name) { // the compiler makes no string of it
	case "Accept-Ranges":
		return "Accept-Ranges", true
	case "Cache-Control":
		return "Cache-Control", true
	case "Connection":
		return "Connection", true
	case "Content-Encoding":
		return "Content-Encoding", true
	case "Content-Length":
		return "Content-Length", true
	case "Content-Type":
		return "Content-Type", true
	case "Date":
		return "Date", true
	case "ETag":
		return "Etag", true
	case "Expires":
		return "Expires", true
	case "Keep-Alive":
		return "Keep-Alive", true
	case "Last-Modified":
		return "Last-Modified", true
	case "Link":
		return "Link", true
	case "Location":
		return "Location", true
	case "Server":
		return "Server", true
	case "Set-Cookie":
		return "Set-Cookie", true
	case "Transfer-Encoding":
		return "Transfer-Encoding", true
	case "Vary":
		return "Vary", true
	case "Accept":
		return "Accept", true
	case "Accept-Encoding":
		return "Accept-Encoding", true
	case "Accept-Language":
		return "Accept-Language", true
	case "Authorization":
		return "Authorization", true
	case "Content-Disposition":
		return "Content-Disposition", true
	case "Cookie":
		return "Cookie", true
	case "Expect":
		return "Expect", true
	case "Host":
		return "Host", true
	case "If-Modified-Since":
		return "If-Modified-Since", true
	case "If-None-Match":
		return "If-None-Match", true
	case "Origin":
		return "Origin", true
	case "Pragma":
		return "Pragma", true
	case "Priority":
		return "Priority", true
	case "Range":
		return "Range", true
	case "Referer":
		return "Referer", true
	case "Sec-Ch-Ua":
		return "Sec-Ch-Ua", true
	case "Sec-Ch-Ua-Mobile":
		return "Sec-Ch-Ua-Mobile", true
	case "Sec-Ch-Ua-Platform":
		return "Sec-Ch-Ua-Platform", true
	case "Sec-Fetch-Dest":
		return "Sec-Fetch-Dest", true
	case "Sec-Fetch-Mode":
		return "Sec-Fetch-Mode", true
	case "Sec-Fetch-Site":
		return "Sec-Fetch-Site", true
	case "Sec-Fetch-User":
		return "Sec-Fetch-User", true
	case "Upgrade":
		return "Upgrade", true
	case "Upgrade-Insecure-Requests":
		return "Upgrade-Insecure-Requests", true
	case "User-Agent":
		return "User-Agent", true
	case "X-Forwarded-For":
		return "X-Forwarded-For", true
	case "X-Forwarded-Host":
		return "X-Forwarded-Host", true
	case "X-Forwarded-Proto":
		return "X-Forwarded-Proto", true
	case "X-Requested-With":
		return "X-Requested-With", true
	case "X-Powered-By":
		return "X-Powered-By", true
	}
	return "", false
}
