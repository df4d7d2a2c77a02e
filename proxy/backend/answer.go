package backend

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"tempomat/proxy/http1"
)

// Answer is what the backend says, and its Body. It is for one goroutine at a time, until
// it is closed: then another request uses its memory.
type Answer struct {
	Status int
	Reason string // as the backend has it; empty: none, or the usual one
	Fields http1.Fields
	// Length is that of the body, or of what a HEAD asks after; negative: unknown.
	Length int64

	pool   *Pool
	call   *Call
	conn   *Conn
	upload *upload
	memory *[memorySize]byte // nil: given back
	buffer http1.Buffer

	framing   http1.Framing
	left      int64
	chunks    http1.ChunkedBody
	keepAlive bool
	hinted    bool // something came before it
	end       error
}

// setHead takes the head over.
func (a *Answer) setHead(head *http1.Response) {
	a.Status, a.Length, a.Fields = head.Status, head.Length, head.Fields
	if head.Reason != http.StatusText(head.Status) {
		a.Reason = head.Reason
	}
	a.framing, a.left, a.keepAlive = head.Framing, head.Length, head.KeepAlive
	a.tellLength()
	switch {
	case a.Status == http.StatusSwitchingProtocols:
		a.framing = http1.UntilEnd
	case a.framing == http1.Chunked:
		a.chunks.Reset(&a.buffer)
	case a.framing == http1.Empty:
		_ = a.finish(io.EOF)
	}
}

// tellLength makes the header announce the length once, as it was understood, or not at all, so
// no reader can understand another one.
func (a *Answer) tellLength() {
	if a.Length < 0 || a.Status == http.StatusNoContent { // otherwise some clients would wait for a body
		a.Fields.Del("Content-Length")
	} else {
		length, _, _ := strings.Cut(a.Fields.Get("Content-Length"), ",")
		a.Fields.Set("Content-Length", strings.TrimSpace(length))
	}
}

// Trailer is what came after the body, once that was read to its end.
func (a *Answer) Trailer() http1.Fields { return a.chunks.Trailer }

// Read implements io.Reader. The end is told together with the last bytes, if it is
// there.
func (a *Answer) Read(p []byte) (n int, err error) {
	switch {
	case a.end != nil:
		return 0, a.end
	case len(p) == 0:
		return 0, nil
	case a.buffer.Buffered() == 0 || a.framing == http1.Chunked:
		a.conn.unlimit()
	}
	switch a.framing {
	case http1.Chunked:
		n, err = a.chunks.Read(p)
	case http1.Length:
		n, err = a.buffer.Read(p[:min(int64(len(p)), a.left)])
		if a.left -= int64(n); a.left == 0 {
			err = io.EOF
		} else if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
	case http1.UntilEnd:
		n, err = a.buffer.Read(p)
	case http1.Empty:
		err = io.EOF
	}
	if err != nil {
		err = a.finish(a.call.why(err))
	}
	return n, err
}

// Waits reports whether Read has to wait for the backend, as far as that is seen: where TLS has
// more than the kernel it may not have to.
func (a *Answer) Waits() bool {
	switch {
	case a.end != nil:
		return false
	case a.framing == http1.Chunked:
		return a.chunks.Waits() && a.conn.isSilent()
	}
	return a.buffer.Buffered() == 0 && a.conn.isSilent()
}

// finish lets go of the connection, which serves the next request if nothing is left
// on it.
func (a *Answer) finish(err error) error {
	if a.end != nil {
		return a.end
	}
	a.end = err
	a.release(errors.Is(err, io.EOF) && a.keepAlive && a.buffer.Buffered() == 0)
	return a.end
}

// uploadEnds is how long the rest of a body may take that is on its way when the answer
// is complete.
const uploadEnds = 50 * time.Millisecond

// release gives back what was borrowed. The connection serves the next request if it is
// clean.
func (a *Answer) release(clean bool) {
	if a.memory == nil {
		return
	}
	a.buffer.Reset(nil, nil)
	a.pool.memory.Put(a.memory)
	a.memory = nil
	switch clean = a.call.use(nil) && clean; {
	case clean && a.upload.isDone():
		a.pool.put(a.conn)
	case clean:
		p, c, u := a.pool, a.conn, a.upload // the answer is another request's by then
		time.AfterFunc(uploadEnds, func() { p.letGo(c, u, u.isDone()) })
	default:
		a.pool.letGo(a.conn, a.upload, false)
	}
}

func (p *Pool) letGo(c *Conn, u *upload, clean bool) {
	if clean {
		p.put(c)
		return
	}
	u.end()
	_ = c.Close() // it is no longer used
}

// Close lets go of the connection, and of the Fields. What was not read is lost. It is
// called once.
func (a *Answer) Close() error {
	a.release(false)
	a.free()
	return nil
}

// free lets another request use the memory.
func (a *Answer) free() {
	p := a.pool
	*a = Answer{Fields: a.Fields.Emptied(), end: http.ErrBodyReadAfterClose}
	p.answers.Put(a)
}

// Tunnel is the connection after an upgrade (101), which is the caller's to close.
func (a *Answer) Tunnel() *Tunnel {
	said := bytes.Clone(a.buffer.Take(a.buffer.Buffered()))
	a.pool.memory.Put(a.memory)
	a.memory, a.end = nil, http.ErrBodyReadAfterClose
	a.conn.unlimit()
	return &Tunnel{Conn: a.conn, rest: io.MultiReader(bytes.NewReader(said), a.conn.Conn)}
}

// Tunnel is a connection to the backend that speaks another protocol now.
type Tunnel struct {
	*Conn
	rest io.Reader
}

// Read implements io.Reader.
func (t *Tunnel) Read(p []byte) (int, error) { return t.rest.Read(p) }
