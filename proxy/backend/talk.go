package backend

import (
	"errors"
	"io"
	"os"
	"syscall"

	"tempomat/proxy/nonblock"
)

// talk sends a whole request and reads the beginning of its answer, in one call of the runtime's poller. The
// poller is armed before the request is written. Therefore talk doesn't miss an answer that comes at once, and
// doesn't begin with a read that finds nothing, as package net would. The same call checks whether the backend has
// closed the connection.
type talk struct {
	asks    []byte // part of the request that must still be written
	answer  []byte // memory for the answer
	waited  bool   // whether the connection was idle, so that the backend may have closed it
	asked   bool   // whether the request was written, or writing it failed
	stale   bool   // whether the connection can't be used, and nothing was sent
	n       int    // number of bytes of the answer that were read
	sending error
	reading error
}

// talk sends a request and reads the beginning of its answer. If an idle connection can't be used, it sends
// nothing and returns errStale. If sending fails, it returns this error as sending, but the backend may still
// have sent an answer.
func (c *Conn) talk(request, memory []byte, waited bool) (n int, sending, reading error) {
	t := &c.talks
	*t = talk{asks: request, answer: memory, waited: waited, asked: request == nil}
	defer func() { *t = talk{} }()
	err := c.raw.Read(c.step)
	for !t.asked && errors.Is(err, os.ErrDeadlineExceeded) && c.extend() {
		err = c.raw.Read(c.step) // repeated, because only the deadline of an earlier request has passed
	}
	switch {
	case t.stale:
		return 0, nil, errStale
	case len(t.asks) > 0 && t.sending == nil && err == nil: // the kernel has no room for more
		_, sending = c.Write(t.asks)
		return 0, sending, nil
	case err != nil && errors.Is(err, os.ErrDeadlineExceeded) && t.asked && c.extend():
		return 0, nil, nil // the caller continues to read
	case err != nil:
		return 0, t.sending, err
	}
	return t.n, t.sending, t.reading
}

// errStale means that an idle connection was closed, or that the backend has sent bytes on it without a
// request.
var errStale = errors.New("the connection was closed")

// talkStep sends and reads as much as it can without waiting. It returns false if it must wait for the answer.
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
