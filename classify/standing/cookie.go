package standing

import "strings"

const (
	maxCookies  = 32      // looked at, of one request
	maxCookie   = 4 << 10 // bytes of the header that are looked at
	leastSecret = 16      // bytes of a value that can tell people apart
	mostSecret  = 256     // bytes of a value that count
)

// eachCookie calls f with the name and value of each cookie of a request that
// may identify a session (RFC 6265, 4.2.1), until it returns false. Shorter
// values, such as a language, are shared by many.
func eachCookie(lines []string, f func(name, value string) bool) {
	n := 0
	for _, line := range lines {
		line = line[:min(len(line), maxCookie)]
		for line != "" && n < maxCookies {
			var pair string
			pair, line, _ = strings.Cut(line, ";")
			n++
			name, value, ok := strings.Cut(strings.Trim(pair, " \t"), "=")
			if !ok || !isSecret(value) {
				continue
			}
			if !f(name, value) {
				return
			}
		}
	}
}

// givenCookie returns what a line of Set-Cookie gives (RFC 6265, 4.1.1), if that
// may identify a session.
func givenCookie(line string) (name, value string, ok bool) {
	pair, _, _ := strings.Cut(line, ";")
	name, value, ok = strings.Cut(strings.Trim(pair, " \t"), "=")
	return name, value, ok && isSecret(value)
}

func isSecret(value string) bool { return len(value) >= leastSecret && len(value) <= mostSecret }
