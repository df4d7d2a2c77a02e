package backend

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/proxy/http1"
)

const (
	// askedFor is how long a body waits to be asked for by a backend that may not know
	// how to (RFC 9110, 10.1.1).
	askedFor = time.Second
	// uploadPiece is how much of a body goes at a time.
	uploadPiece = 16 << 10
)

// upload is a body on its way to the backend. A nil one is complete.
type upload struct {
	conn *Conn
	r    *Request
	asks chan struct{} // closed when the backend asks for the body, or nobody wants it; nil: it goes at once
	once sync.Once
	done atomic.Bool // all of it was sent
	over atomic.Bool // nobody wants it
}

// startUpload sends the body of a request while the answer is awaited, as it may come
// before the body has come to its end.
func startUpload(c *Conn, r *Request, patience time.Duration) *upload {
	c.begin()
	u := &upload{conn: c, r: r}
	if r.Fields.Get("Expect") != nil {
		u.asks = make(chan struct{})
	}
	go u.run(patience)
	return u
}

// isDone tells whether nothing of the body is on its way any more.
func (u *upload) isDone() bool { return u == nil || u.done.Load() }

// goAhead has a body that waits for that be sent.
func (u *upload) goAhead() {
	if u != nil && u.asks != nil {
		u.once.Do(func() { close(u.asks) })
	}
}

// end says that nobody wants the body any more. A Write that is under way ends as the
// connection is closed.
func (u *upload) end() {
	if u != nil {
		u.over.Store(true)
		u.goAhead()
	}
}

func (u *upload) run(patience time.Duration) {
	defer u.r.drop()
	if u.asks != nil {
		timer := time.NewTimer(askedFor)
		defer timer.Stop()
		select {
		case <-u.asks:
		case <-timer.C:
		}
	}
	if u.over.Load() {
		return
	}
	complete, err := u.send()
	// If the client did not send all of it, a backend that reads gives up, and one that
	// does not finishes; its end is seen. One that does not take it may have answered.
	if !complete && err == nil && u.conn.CloseWrite() != nil {
		_ = u.conn.Close() // there is no other way to tell
	}
	u.conn.sentBody(patience)
	u.done.Store(complete) // after that the connection is another request's
}

// send returns whether all of it was sent. An error is that of the backend, and none of
// the body.
func (u *upload) send() (complete bool, err error) {
	memory := make([]byte, http1.ChunkRoom+uploadPiece+2)
	for left := u.r.Length; ; {
		n, end := u.r.Body.Read(memory[http1.ChunkRoom : http1.ChunkRoom+uploadPiece])
		piece := memory[http1.ChunkRoom : http1.ChunkRoom+n]
		last := errors.Is(end, io.EOF)
		switch {
		case u.r.Length < 0 && n > 0:
			piece = http1.Chunk(memory, n)
		case u.r.Length >= 0:
			if left -= int64(n); left < 0 || left > 0 && last {
				return false, nil
			}
		}
		if u.r.Length < 0 && last {
			piece = http1.AppendLastChunk(piece, u.r.Trailer)
		}
		if len(piece) > 0 {
			if _, err := u.conn.Write(piece); err != nil {
				return false, err
			}
		}
		if end != nil {
			return last, nil //nolint:nilerr // see above
		}
	}
}
