package classify

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
)

// maxHeaderBytes is how much of a header's value tells keys apart.
const maxHeaderBytes = 4096

// appendHeaderID appends 16 hexadecimal digits: the first 8 bytes of the SHA-256 of the
// header's first value. The value may be a secret, an API key or a cookie, and must not be
// readable in a table or a log. The hash has no key, so every sidecar gives the same client the
// same ID; a value that can be guessed can therefore be confirmed from its ID.
//
// Nothing is appended without the header or with an empty one: all clients
// that lack it would otherwise share one bucket.
func appendHeaderID(dst []byte, name string, r *http.Request) []byte {
	var value string
	if name == "Host" {
		value = r.Host // net/http keeps it apart
	} else if lines := r.Header[name]; len(lines) > 0 {
		value = lines[0]
	}
	if value == "" {
		return dst
	}
	sum := digest(value)
	return hex.AppendEncode(dst, sum[:8])
}

// digest is the SHA-256 of a text, as far as it tells keys apart.
func digest(text string) [sha256.Size]byte {
	var scratch [maxHeaderBytes]byte
	return sha256.Sum256(scratch[:copy(scratch[:], text)])
}

// isToken reports whether s is a token (RFC 9110, 5.6.2), as a header's name is.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if isLetter(c) || isDigit(c) {
			continue
		}
		switch c {
		case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~':
		default:
			return false
		}
	}
	return s != ""
}

// FoldedName is the field that a server takes a canonical name for if it passes fields on in its
// environment (CGI, RFC 3875, 4.1.18). Such servers turn every character that is neither a
// letter nor a digit into an underscore: to them X_Real_IP and X.Real!IP are X-Real-IP. A name of
// letters, digits and hyphens is returned as it is.
func FoldedName(name string) string {
	isOdd := func(c rune) bool {
		letter := c | 0x20
		return !('a' <= letter && letter <= 'z' || '0' <= c && c <= '9' || c == '-')
	}
	if strings.IndexFunc(name, isOdd) < 0 {
		return name
	}
	return http.CanonicalHeaderKey(strings.Map(func(c rune) rune {
		if isOdd(c) {
			return '-'
		}
		return c
	}, name))
}

// A fingerprint is which of the usual fields a program sends with every request, and in which
// order: it distinguishes programs that claim the same name. Values are not in it, so it
// distinguishes programs and not people, and all users of the same version of a browser have the
// same one. Also left out are fields that depend on the request or the person (Cookie, Referer,
// Range, Content-Type, If-None-Match and the like), what proxies add, and invented names, so a
// client can't become several by inventing names.
//
// A browser has two or three, because it sends other fields for a page than for its parts. With
// HTTP/2 there is no order: only names count.

const (
	// mostFields is how many fields of a header are looked at.
	mostFields = 64
	// FNV-1a. It keeps no one out: a client that wants another's fingerprint can send the same
	// fields.
	fnvOffset = 0xcbf29ce484222325
	fnvPrime  = 0x100000001b3
)

// appendFingerprint appends 16 hexadecimal digits.
func appendFingerprint(dst []byte, r *http.Request, fields Fields) []byte {
	sum := taken(taken(fnvOffset, byte(r.ProtoMajor&3)), byte(r.ProtoMinor&3))
	if fields != nil {
		for at := range min(fields.Len(), mostFields) {
			if mark := markOf(fields.Name(at)); mark != 0 {
				sum = taken(sum, mark)
			}
		}
	} else {
		var sent uint32
		for name := range r.Header {
			sent |= 1 << markOf(name)
		}
		sent &^= 1 // of those without a mark
		var all [4]byte
		binary.LittleEndian.PutUint32(all[:], sent)
		for _, x := range all {
			sum = taken(sum, x)
		}
	}
	var digest [8]byte
	binary.BigEndian.PutUint64(digest[:], sum)
	return hex.AppendEncode(dst, digest[:])
}

// taken is the sum with a byte more.
func taken(sum uint64, x byte) uint64 { return (sum ^ uint64(x)) * fnvPrime }

// marked are the fields that count, each by its place. That is a part of what sidecars tell each other, and so
// it never changes: a new one goes to the end.
//
//nolint:gochecknoglobals // a constant
var marked = [...]string{
	"Host", "Connection", "User-Agent", "Accept", "Accept-Encoding", "Accept-Language", "Accept-Charset", "Sec-Ch-Ua",
	"Sec-Ch-Ua-Mobile", "Sec-Ch-Ua-Platform", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Dnt", "Sec-Gpc", "Te",
	"Keep-Alive", "Proxy-Connection", "From", "Upgrade", "Http2-Settings", "Save-Data", "Device-Memory",
}

// markOf is a number of 1 to 31 for each field that counts; 0: it does not.
func markOf(name string) byte { return byte(slices.Index(marked[:], name) + 1) } //nolint:gosec // there are few

// hostOf is the host that a request is for, without what does not tell sites apart: case,
// the port, and the dot at the end of a name.
func hostOf(host string) string { return strings.ToLower(withoutPort(host)) }

func withoutPort(host string) string {
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		host = host[:colon]
	}
	return strings.TrimSuffix(host, ".")
}

// appendHost appends the host that a request is for, or nothing if it has none. If it is longer
// than an ID, its beginning is kept, and a hash of all of it.
//
// A client can ask for any host. Characters that names and addresses don't have are folded, so
// nothing else gets into tables and logs; the limiter's table bounds the number of hosts.
func appendHost(dst []byte, host string) []byte {
	const kept, hashed = maxID - 17, 8
	host = withoutPort(host)
	for i := range min(len(host), maxID) {
		c := host[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c |= 0x20
		case isLetter(c), isDigit(c), c == '.', c == '-', c == '_', c == ':', c == '[', c == ']':
		default:
			c = '?'
		}
		dst = append(dst, c)
	}
	if len(host) > maxID {
		sum := digest(host)
		dst = hex.AppendEncode(append(dst[:len(dst)-maxID+kept], '~'), sum[:hashed])
	}
	return dst
}
