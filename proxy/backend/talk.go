package backend

import (
	"errors"
	"io"
	"os"
	"syscall"

	"tempomat/proxy/nonblock"
)

// talk is a request without a body, and the first bytes of its answer. Both pass in one turn
// of the runtime's poller, which is told of the wait before the request is written: so nobody
// has to try and read in vain before that, as package net does, or an answer that came
// in the meantime would be missed. And whether the backend has closed the connection is looked at
// there as well.
type talk struct {
	asks    []byte // what is to be written yet
	answer  []byte // what is read goes here
	waited  bool   // the connection did, and may be closed
	asked   bool   // the request is written, or cannot be
	stale   bool   // the connection cannot be used, and nothing was asked
	n       int    // bytes of the answer
	sending error
	reading error
}

// talksAbout reports whether a request is sent by talk.
func (c *Conn) talksAbout(r *Request) bool { return c.bare && r.Body == nil }

// talk sends a request and reads what comes first of its answer. It returns errStale if the
// connection, which waited, cannot be used: then nothing was sent. A request that cannot be
// sent may have been answered before; sending is why.
func (c *Conn) talk(request, memory []byte, waited bool) (n int, sending, reading error) {
	t := &c.talks
	*t = talk{asks: request, answer: memory, waited: waited}
	defer func() { *t = talk{} }()
	if c.step == nil {
		c.step = c.talkStep
	}
	err := c.raw.Read(c.step)
	for !t.asked && errors.Is(err, os.ErrDeadlineExceeded) && c.extend() {
		err = c.raw.Read(c.step) // the deadline of a request before passed as this one began
	}
	switch {
	case t.stale:
		return 0, nil, errStale
	case len(t.asks) > 0 && t.sending == nil && err == nil: // the kernel has no room for more
		_, sending = c.Write(t.asks)
		return 0, sending, nil
	case err != nil && errors.Is(err, os.ErrDeadlineExceeded) && t.asked && c.extend():
		return 0, nil, nil // read on
	case err != nil:
		return 0, t.sending, err
	}
	return t.n, t.sending, t.reading
}

// errStale is that of a connection that was closed as it waited, or on which the backend has
// said something that nobody asked for.
var errStale = errors.New("the connection was closed")

// talkStep goes on as far as it goes without waiting. It returns false if the answer has to be
// waited for.
func (c *Conn) talkStep(fd uintptr) (done bool) {
	t := &c.talks
	if !t.asked {
		t.asked = true
		if t.waited {
			t.stale, _ = isSpoken(fd)
		}
		if t.stale || !t.send(fd) {
			return true
		}
		if c.noteReset(t.sending); t.sending == nil {
			return false
		}
	}
	n, err := nonblock.Read(fd, t.answer)
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return false
	case err != nil:
		t.reading = os.NewSyscallError("read", err)
	case n == 0:
		t.reading = io.ErrUnexpectedEOF
	}
	t.n = n
	return true
}

// send writes the request. It returns false if there is no room for all of it.
func (t *talk) send(fd uintptr) bool {
	for len(t.asks) > 0 {
		n, err := nonblock.Write(fd, t.asks)
		switch {
		case errors.Is(err, syscall.EAGAIN):
			return false
		case err != nil:
			t.sending = os.NewSyscallError("write", err)
			return true
		}
		t.asks = t.asks[n:]
	}
	return true
}
