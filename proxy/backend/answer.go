package backend

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"tempomat/proxy/http1"
)

// Answer is the backend's answer, and reads its body. One goroutine at a time may use it until it is closed.
// Then another request reuses its memory.
type Answer struct {
	Status int
	Reason string // reason phrase; empty: the backend sent none, or the usual one
	Fields http1.Fields
	// Length is the length of the body, or of the body that a GET instead of a HEAD would get;
	// negative: not announced.
	Length int64

	pool   *Pool
	call   *Call
	conn   *Conn
	upload *upload
	memory *[memorySize]byte // borrowed memory; nil: it was given back
	buffer http1.Buffer

	framing   http1.Framing
	left      int64
	chunks    http1.ChunkedBody
	keepAlive bool
	hinted    bool // whether an interim answer came before this one
	end       error
}

// setHead copies the head to the Answer.
func (a *Answer) setHead(head *http1.Response) {
	a.Status, a.Length, a.Fields = head.Status, head.Length, head.Fields
	if head.Reason != http.StatusText(head.Status) {
		a.Reason = head.Reason
	}
	a.framing, a.left, a.keepAlive = head.Framing, head.Length, head.KeepAlive
	if a.Length < 0 {
		a.Fields.Del("Content-Length") // if there are chunks as well, no client must understand a length
	}
	switch {
	case a.Status == http.StatusSwitchingProtocols:
		a.framing = http1.UntilEnd
	case a.framing == http1.Chunked:
		a.chunks.Reset(&a.buffer)
	case a.framing == http1.Empty:
		_ = a.finish(io.EOF)
	}
}

// Trailer returns the trailers after the body was read to the end.
func (a *Answer) Trailer() http1.Fields { return a.chunks.Trailer }

// Read implements io.Reader. It returns io.EOF together with the last bytes if the end has been
// read.
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

// Waits reports whether Read would have to wait for the backend. Over TLS it may report true although a record has
// been read, and false although only the end of a chunk has arrived.
func (a *Answer) Waits() bool {
	switch {
	case a.end != nil:
		return false
	case a.framing != http1.Chunked:
		return a.buffer.Buffered() == 0 && a.conn.isSilent()
	}
	for a.chunks.Waits() {
		switch {
		case a.conn.isSilent():
			return true
		case !a.conn.bare || !a.chunks.More(): // TLS may have to wait for the rest of a record
			return false
		}
	}
	return false
}

// finish releases the connection. The connection can serve the next request if no bytes are left on it.
func (a *Answer) finish(err error) error {
	if a.end != nil {
		return a.end
	}
	a.end = err
	a.release(errors.Is(err, io.EOF) && a.keepAlive && a.buffer.Buffered() == 0)
	return a.end
}

// uploadEnds is how long the request's body may still be sent after the answer is complete.
const uploadEnds = 50 * time.Millisecond

// release gives back what was borrowed. If the connection is clean, it serves the next request.
func (a *Answer) release(clean bool) {
	if a.memory == nil {
		return
	}
	a.buffer = http1.Buffer{}
	a.pool.memory.Put(a.memory)
	a.memory = nil
	switch clean = a.call.use(nil) && clean; {
	case clean && a.upload.isDone():
		a.pool.put(a.conn)
	case clean:
		p, c, u := a.pool, a.conn, a.upload // copied, because another request may use the Answer when the goroutine runs
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
	_ = c.Close() // no request uses the connection
}

// Close releases the connection and the memory, and discards the rest of the body. It must be
// called once.
func (a *Answer) Close() error {
	a.release(false)
	a.free()
	return nil
}

// free lets another request reuse the memory.
func (a *Answer) free() {
	p := a.pool
	*a = Answer{Fields: a.Fields.Emptied(), end: http.ErrBodyReadAfterClose}
	p.answers.Put(a)
}

// Tunnel returns the connection after an upgrade (101). The caller must close it.
func (a *Answer) Tunnel() *Tunnel {
	said := bytes.Clone(a.buffer.Take(a.buffer.Buffered()))
	a.pool.memory.Put(a.memory)
	a.memory, a.end = nil, http.ErrBodyReadAfterClose
	_ = a.conn.SetReadDeadline(time.Time{}) // fails only if the connection is closed; reading then fails too
	return &Tunnel{Conn: a.conn, rest: io.MultiReader(bytes.NewReader(said), a.conn.Conn)}
}

// Tunnel is a connection to the backend that now uses another protocol.
type Tunnel struct {
	*Conn
	rest io.Reader
}

// Read implements io.Reader.
func (t *Tunnel) Read(p []byte) (int, error) { return t.rest.Read(p) }
