package front

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"tempomat/proxy/http1"
)

// errTarget means that the request's target isn't a URL of this server.
var errTarget = http1.Malformed("a target that isn't a URL")

// setHead fills the request from the head that was read.
func (r *request) setHead(c *conn) error {
	r.Request = *c.blank()
	r.Method, r.RequestURI, r.Host = r.head.Method, r.head.Target, r.head.Host
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, r.head.Minor
	if r.head.Minor == 0 {
		r.Proto = "HTTP/1.0"
	}
	r.RemoteAddr, r.Close = c.remote, !r.head.KeepAlive
	if err := r.locate(); err != nil {
		return err
	}
	r.fields = r.head.Fields
	r.fill("Host", "Transfer-Encoding", "Trailer")
	r.Body, r.ContentLength = http.NoBody, r.head.Length
	if r.head.Framing != http1.Empty {
		r.body.begin(c, r)
		r.Body = &r.body
	}
	return nil
}

// fill makes the header map. Like package net/http, it omits the fields that frame the message, except
// Content-Length.
func (r *asked) fill(without ...string) {
	r.Header = r.header
	r.values = slices.Grow(r.values[:0], len(r.fields))
	for _, f := range r.fields {
		if slices.Contains(without, f.Key) {
			continue
		}
		if before := r.header[f.Key]; before != nil {
			r.header[f.Key] = append(before, f.Value)
			continue
		}
		n := len(r.values)
		r.values = append(r.values, f.Value)
		r.header[f.Key] = r.values[n : n+1 : n+1]
	}
}

// locate sets the URL, and the host if the target names one (RFC 9112, 3.2).
func (r *asked) locate() error {
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

// body is the body of a request. Any goroutine may read it.
type body struct {
	r *request

	mu      sync.Mutex // held while Read waits for the client; guards the fields below
	in      *http1.Buffer
	chunks  http1.ChunkedBody
	left    int64 // bytes that are still to come, if the body has a length
	expects bool  // whether the client waits for a 100 (Continue)
	err     error // io.EOF: the body was read to its end

	complete atomic.Bool // whether err is io.EOF
}

func (b *body) begin(c *conn, r *request) {
	b.r, b.in, b.left, b.expects = r, &c.in, r.head.Length, r.head.Expects
	if r.head.Framing == http1.Chunked {
		b.chunks.ResetShort(b.in)
	}
}

// Read implements io.Reader. If the client waits for a 100 (Continue), Read sends it.
func (b *body) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	defer b.survive(&err)
	if b.expects {
		b.expects = false
		b.r.response.goOn()
	}
	if b.r.head.Framing == http1.Chunked {
		n, err = b.chunks.Read(p)
	} else {
		n, err = b.readLength(p)
	}
	b.err = err
	b.complete.Store(errors.Is(err, io.EOF))
	return n, err
}

// survive turns a panic into an error, because Read may run on one of the handler's goroutines.
func (b *body) survive(err *error) {
	if p := recover(); p != nil {
		b.r.response.conn.fails(p)
		b.err = errFailed
		*err = b.err
	}
}

func (b *body) readLength(p []byte) (int, error) {
	n, err := b.in.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	switch {
	case b.left == 0:
		return n, io.EOF
	case errors.Is(err, io.EOF):
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// Close makes later reads fail.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = http.ErrBodyReadAfterClose
	}
	return nil
}

// isUnread reports whether a part of the body may still come. It takes no lock, because a reader
// that waits for the client holds it.
func (b *body) isUnread() bool { return b.r != nil && !b.complete.Load() }

// isBroken reports whether the rest of the body can no longer arrive. It returns false after a deadline, because
// handlers also set deadlines to wake readers, and after malformed chunks, because the client may send more.
func (b *body) isBroken() bool {
	if b.r == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, err := range []error{nil, io.EOF, http.ErrBodyReadAfterClose, os.ErrDeadlineExceeded, http1.ErrMalformed} {
		if errors.Is(b.err, err) {
			return false
		}
	}
	return true
}

// mostLong is the number of heads larger than inSize that may be read at a time. Without this bound, a client
// with many connections could make the server hold Options.MaxHead bytes for each of them.
const mostLong = 1024

// holder returns the address for which a long head counts. Clients without an address, such as those on a unix
// socket, all count as the zero Addr.
func (c *conn) holder() netip.Addr {
	peer, err := netip.ParseAddrPort(c.remote)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr()
}

// longestShort is the longest head, in bytes, that fits in the usual memory.
const longestShort = inSize - 1

// readHead reads the head of a request. If the head turns out to be long, it must first get one of mostLong
// places. Afterwards the bytes that follow the head are in the usual memory again.
func (c *conn) readHead(r *request) error {
	most := c.server.o.MaxHead
	if most < inSize {
		return c.in.ReadRequest(&r.head, most)
	}
	err := c.in.ReadRequest(&r.head, longestShort)
	if c.in.Buffered() < longestShort || err == nil {
		return err // the head fits in the usual memory, or reading it failed
	}
	if ok, _ := c.server.long.Take(c.holder(), 1); !ok {
		return err
	}
	defer c.server.long.GiveBack(c.holder(), 1)
	err = c.in.ReadRequest(&r.head, most)
	n := copy(c.memory[:], c.in.Peek(inSize)) // all bytes after the head; after an error, the rest isn't needed
	c.in.Resume(c.Conn, c.memory[:], n)
	return err
}
