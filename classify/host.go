package classify

import "strings"

// hostOf is the host that a request is for, without what does not tell sites apart: case,
// the port, and the dot at the end of a name.
func hostOf(host string) string { return strings.ToLower(withoutPort(host)) }

func withoutPort(host string) string {
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		host = host[:colon]
	}
	return strings.TrimSuffix(host, ".")
}
