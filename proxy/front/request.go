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

// errTarget is a target that is no URL of this server's.
var errTarget = http1.Malformed("a target that is no URL")

// setHead makes a request of the head that was read.
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

// fill makes the header, without some names: what frames the message is not in it, as with package
// net/http, but a length.
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

// locate makes the URL of the target (RFC 9112, 3.2), and the host that one tells.
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
	if r.Host = u.Host; u.Host == "" || u.User != nil || !http1.IsHost(u.Host) { // of h@evil some take h for the host
		return errTarget
	}
	return nil
}

func hasScheme(target, scheme string) bool {
	return len(target) > len(scheme) && strings.EqualFold(target[:len(scheme)], scheme)
}

// isPlain reports whether a path is written as package url would write it, and so is the
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

// body is that of a request. Another goroutine than the handler's may read it.
type body struct {
	r *request

	mu      sync.Mutex // held while the client is waited for; guards the following
	in      *http1.Buffer
	chunks  http1.ChunkedBody
	left    int64 // of a body that has a length
	expects bool  // the client waits to be told to go on
	err     error // io.EOF: it was read to its end

	complete atomic.Bool // it was
}

func (b *body) begin(c *conn, r *request) {
	b.r, b.in, b.left, b.expects = r, &c.in, r.head.Length, r.head.Expects
	if r.head.Framing == http1.Chunked {
		b.chunks.ResetShort(b.in)
	}
}

// Read implements io.Reader. A client that waits to be asked for the body is.
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

// survive turns a panic into an error: the reader may be another goroutine than the connection's.
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

// Close has nobody read it any more.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = http.ErrBodyReadAfterClose
	}
	return nil
}

// isUnread reports whether some of it may still come. It does not wait for a reader, because
// the client may wait for the answer's head.
func (b *body) isUnread() bool { return b.r != nil && !b.complete.Load() }

// isBroken reports whether the client cannot send the rest of it. One that is late may, and
// it may be the handler that woke who waited for it; and one that sent no chunks may send more
// of the kind.
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

// mostLong is how many heads that need more than inSize may come at a time: a client that
// has many connections could have the server hold Options.MaxHead for each.
const mostLong = 1024

// holder is the client whose long heads count together; the zero Addr: all that have no address.
func (c *conn) holder() netip.Addr {
	peer, err := netip.ParseAddrPort(c.remote)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr()
}

// longestShort is the longest head that needs no room, in bytes: the buffer does not grow for it.
const longestShort = inSize - 1

// readHead reads the head of a request, a long one if there is room for it.
func (c *conn) readHead(r *request) error {
	most := c.server.o.MaxHead
	if most < inSize || c.long {
		return c.in.ReadRequest(&r.head, most)
	}
	err := c.in.ReadRequest(&r.head, longestShort)
	if c.in.Buffered() < longestShort || err == nil {
		return err // not as it is longer: what is too long is not taken
	}
	if ok, _ := c.server.long.Take(c.holder(), 1); !ok {
		return err
	}
	c.long = true
	return c.in.ReadRequest(&r.head, most)
}

// shorten has what follows a long head lie in the usual memory, if it fits.
func (c *conn) shorten() {
	if !c.long || c.in.Buffered() > inSize {
		return
	}
	n := copy(c.memory[:], c.in.Peek(inSize))
	c.in.Resume(c.Conn, c.memory[:], n)
	c.longEnds()
}

// longEnds notes that the memory of a long head is free.
func (c *conn) longEnds() {
	if c.long {
		c.long = false
		c.server.long.GiveBack(c.holder(), 1)
	}
}
