package websocket

import (
	"encoding/binary"
	"io"
	"sync"
)

// GoingAway is the status of a close frame from a server that ends (RFC 6455, section
// 7.4.1).
const GoingAway = 1001

// CloseFrame returns a close frame as a server sends it: with a status, and no mask.
func CloseFrame(status uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{final | opClose, 2}, status)
}

// Writer passes on what a server sends to a client, and can say in between that the
// connection comes to its end. Its methods may be called concurrently, also GoAway
// during a Write; but a Write that hangs keeps GoAway waiting.
type Writer struct {
	mu     sync.Mutex // guards the following
	out    io.Writer
	frames Frames
	goes   bool // the close frame is to be sent, or has been
	gone   bool // it has been
}

// NewWriter makes a Writer to a client that has just been sent the head of the 101.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// Write passes p on. After GoAway it does so up to the end of the frame, then sends the
// close frame, and drops what comes then, which a client that was told so would not
// read (RFC 6455, section 5.5.1). It returns how many bytes of p were passed on or
// dropped.
func (w *Writer) Write(p []byte) (n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return len(p), nil
	}
	pass := 0
	for pass < len(p) && !(w.goes && w.frames.between()) {
		pass += w.frames.next(p[pass:])
	}
	if n, err = w.out.Write(p[:pass]); err != nil {
		return n, err
	}
	if err := w.sayLocked(); err != nil || w.gone {
		return len(p), err
	}
	return n, nil
}

// GoAway has a close frame sent with the status GoingAway: at once between two frames,
// else as soon as the one that is on its way has passed; once, and never where the
// server has sent its own or what came were no frames.
func (w *Writer) GoAway() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.goes = true
	return w.sayLocked()
}

// sayLocked sends the close frame if it is time.
func (w *Writer) sayLocked() error {
	if !w.goes || w.gone || !w.frames.between() {
		return nil
	}
	w.gone = true
	_, err := w.out.Write(CloseFrame(GoingAway))
	return err
}

// Gone tells whether the close frame has been sent: the client answers it, and then
// waits for the connection to be closed.
func (w *Writer) Gone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}

// CloseWrite passes on that the server has nothing more to say. It is an error where the
// client cannot be told but by closing.
func (w *Writer) CloseWrite() error {
	if half, ok := w.out.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return io.ErrClosedPipe
}
