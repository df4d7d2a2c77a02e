package proxy

import (
	"net/http"
	"strconv"
	"strings"

	"tempomat/proxy/http1"
)

// isSound tells whether every backend reads the same in a request.
func isSound(r *http.Request) bool {
	return http1.IsToken(r.Method) && isSoundTarget(r.RequestURI) && isSoundHost(r) &&
		(r.ProtoMajor < 2 || isSoundStream(r))
}

// isSoundTarget tells it of what is asked for: a fragment is none of its parts (RFC
// 9112, 3.2), and some backends cut it off.
func isSoundTarget(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == 0x7f || c == '#' {
			return false
		}
	}
	return true
}

// isSoundHost tells it of the host. Who speaks HTTP/1.0 may name none.
func isSoundHost(r *http.Request) bool {
	return http1.IsHost(r.Host) || r.Host == "" && !r.ProtoAtLeast(1, 1)
}

// isSoundStream tells it of a request of HTTP/2, which has no line that a space could end,
// and lets much be said twice that package net/http does not compare: an absolute URL as
// a path, a host beside the authority (RFC 9113, 8.3.1), a length beside the frames
// (8.1.1).
func isSoundStream(r *http.Request) bool {
	for _, host := range r.Header["Host"] {
		if !strings.EqualFold(host, r.Host) || len(r.Header["Host"]) > 1 {
			return false
		}
	}
	switch lengths := r.Header["Content-Length"]; len(lengths) {
	case 0:
	case 1:
		if n, err := strconv.ParseUint(lengths[0], 10, 63); err != nil || int64(n) != r.ContentLength {
			return false
		}
	default:
		return false
	}
	switch r.Method {
	case http.MethodConnect:
		return true // nobody is asked
	case http.MethodOptions:
		return r.RequestURI == "*" || strings.HasPrefix(r.RequestURI, "/")
	}
	return strings.HasPrefix(r.RequestURI, "/")
}
