package front

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tempomat/proxy/http1"
)

// exchange is a request of either protocol in the form that the handler gets, and the handler's answer, with the memory
// that both borrow.
type exchange struct {
	answer
	request http.Request
	url     url.URL
	asked   http1.Fields // fields of the request's head, in order
	size    int          // size of the request's head, in bytes
	header  http.Header
	values  []string // memory for the values in header
	keeps   bool     // whether the request must stay valid after its answer
}

// answer is what is known of an answer.
type answer struct {
	fields   http1.Fields
	plain    http.Header // fields of handlers of package net/http; nil: none
	trailer  http1.Fields
	status   int   // 0: not known yet
	length   int64 // announced length of the body; negative: none
	written  int64
	bodyless bool
}

// Header implements http.ResponseWriter, for handlers of package net/http.
func (x *exchange) Header() http.Header {
	if x.plain == nil {
		x.plain = make(http.Header)
	}
	return x.plain
}

// Fields returns the answer's header. The handler fills it before it calls WriteHeader.
func (x *exchange) Fields() *http1.Fields { return &x.fields }

// SetTrailer sets the trailers. It may be called until the handler returns.
func (x *exchange) SetTrailer(trailer http1.Fields) { x.trailer = trailer }

// Keep keeps the request and its header valid after the handler has returned.
func (x *exchange) Keep() { x.keeps = true }

// Asked returns the fields of the request's head as the client wrote them. The handler owns them until it
// returns, or indefinitely after Keep.
func (x *exchange) Asked() *http1.Fields { return &x.asked }

// HeadSize returns the size of the request's head in bytes. Asked keeps these bytes in memory.
func (x *exchange) HeadSize() int { return x.size }

// setStatus sets the final status, and the length that the body is announced to have.
func (x *exchange) setStatus(status int) {
	x.status, x.length = status, -1
	x.bodyless = x.request.Method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified
	if len(x.plain) > 0 {
		for _, name := range slices.Sorted(maps.Keys(x.plain)) {
			for _, v := range x.plain[name] {
				x.fields.Add(name, v)
			}
		}
	}
	if n, err := strconv.ParseUint(x.fields.Get("Content-Length"), 10, 62); err == nil {
		x.length = int64(n)
	}
}

// largeHeader is the size of a header map, in names, above which the map is not reused.
const largeHeader = 64

func newExchange() exchange { return exchange{header: make(http.Header)} }

// clear empties the exchange for reuse. It keeps the memory, but no references.
func (x *exchange) clear() {
	if len(x.header) > largeHeader { // a map never shrinks
		x.header, x.values = make(http.Header), nil
	}
	clear(x.header)
	clear(x.values)
	*x = exchange{asked: x.asked.Emptied(), header: x.header, values: x.values[:0], answer: answer{fields: x.fields.Emptied()}}
}

// errTarget means that the request's target isn't a URL of this server.
var errTarget = http1.Malformed("a target that isn't a URL")

// fill makes the header map.
func (x *exchange) fill() {
	x.request.Header = x.header
	x.values = slices.Grow(x.values[:0], len(x.asked))
	for _, f := range x.asked {
		if before := x.header[f.Key]; before != nil {
			x.header[f.Key] = append(before, f.Value)
			continue
		}
		n := len(x.values)
		x.values = append(x.values, f.Value)
		x.header[f.Key] = x.values[n : n+1 : n+1]
	}
}

// locate sets the URL, and the host if the target names one (RFC 9112, 3.2).
func (x *exchange) locate() error {
	r := &x.request
	target := r.RequestURI
	switch {
	case target[0] == '/':
		if path, query, asks := strings.Cut(target, "?"); isPlain(path) {
			x.url = url.URL{Path: path, RawQuery: query, ForceQuery: asks && query == ""}
			r.URL = &x.url
			return nil
		}
	case r.Method == http.MethodConnect:
		x.url = url.URL{Host: target}
		r.URL, r.Host = &x.url, target
		return nil
	case target == "*" && r.Method == http.MethodOptions:
		x.url = url.URL{Path: "*"}
		r.URL = &x.url
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
	if r.Host = u.Host; u.Host == "" || u.User != nil || !http1.IsHost(u.Host) { // some servers would treat h@evil as the host h
		return errTarget
	}
	return nil
}

func hasScheme(target, scheme string) bool {
	return len(target) > len(scheme) && strings.EqualFold(target[:len(scheme)], scheme)
}

// isPlain reports whether decoding leaves a path unchanged and package url would write it the same way.
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
