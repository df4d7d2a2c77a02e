package front

import (
	"net/http"
	"net/url"
	"strings"

	"tempomat/proxy/http1"
)

// errTarget is a target that is no URL of this server's.
var errTarget = http1.Malformed("a target that is no URL")

// take makes a request of the head that was read, which takes nothing of the buffer with
// it.
func (r *request) take(c *conn) error {
	r.Request = *c.blank()
	texts := &c.server.memory.texts
	text := texts.Borrow(r.head.Fields, len(r.head.Method)+len(r.head.Target)+len(r.head.Host))
	defer texts.Return(text)
	r.Method = method(r.head.Method)
	if r.Method == "" {
		r.Method = text.Of(r.head.Method)
	}
	r.RequestURI = text.Of(r.head.Target)
	r.Host = text.Of(r.head.Host)
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, r.head.Minor
	if r.head.Minor == 0 {
		r.Proto = "HTTP/1.0"
	}
	r.RemoteAddr, r.Close = c.remote, !r.head.KeepAlive
	if err := r.locate(); err != nil {
		return err
	}
	r.Header = r.header
	announced := r.fill(text)
	r.Body, r.ContentLength = http.NoBody, r.head.Length
	if r.head.Framing != http1.Empty {
		r.body.begin(c, r)
		r.Body, r.Trailer = &r.body, announced
	}
	h := r.head // without what lies in the buffer, which others use from now on
	r.head = http1.RequestHead{Minor: h.Minor, Framing: h.Framing, Length: h.Length, KeepAlive: h.KeepAlive, Expects: h.Expects}
	return nil
}

// locate makes the URL of the target (RFC 9112, 3.2), and the host that one tells.
func (r *request) locate() error {
	target := r.RequestURI
	switch {
	case target[0] == '/':
		if path, query, asks := strings.Cut(target, "?"); isPlain(path) {
			r.url = url.URL{Path: path, RawQuery: query, ForceQuery: asks && query == ""}
			r.URL = &r.url
			return nil
		}
	case r.Method == http.MethodConnect:
		r.url = url.URL{Host: target}
		r.URL, r.Host = &r.url, target
		return nil
	case target == "*" && r.Method == http.MethodOptions:
		r.url = url.URL{Path: "*"}
		r.URL = &r.url
		return nil
	case !hasScheme(target, "http://") && !hasScheme(target, "https://"):
		return errTarget
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return errTarget
	}
	r.URL = u
	if target[0] == '/' {
		return nil
	}
	if r.Host = u.Host; u.Host == "" || u.User != nil || !http1.IsHost(u.Host) { // of h@evil some take h for the host
		return errTarget
	}
	return nil
}

func hasScheme(target, scheme string) bool {
	return len(target) > len(scheme) && strings.EqualFold(target[:len(scheme)], scheme)
}

// isPlain tells whether a path is written as package url would write it, and so is the
// same when it is decoded.
func isPlain(path string) bool {
	for i := range len(path) {
		switch c := path[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("-_.~$&+,/:;=@", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// fill makes the header. What frames the message is not in it, as with package net/http,
// but a length. It returns what trailers the head announces.
func (r *request) fill(text *http1.Text) (announced http.Header) {
	r.order = text.Collect(r.header, r.head.Fields, r.values[:], r.names[:])
	announced = http1.Announced(r.header)
	for _, name := range []string{"Host", "Transfer-Encoding", "Trailer"} {
		delete(r.header, name)
	}
	return announced
}

// method is one of those that most requests have; empty: it is another one.
func method(p []byte) string {
	switch string(p) { // the compiler makes no string of it
	case http.MethodGet:
		return http.MethodGet
	case http.MethodHead:
		return http.MethodHead
	case http.MethodPost:
		return http.MethodPost
	case http.MethodPut:
		return http.MethodPut
	case http.MethodDelete:
		return http.MethodDelete
	case http.MethodOptions:
		return http.MethodOptions
	}
	return ""
}
