//go:build cgo

package smockron

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	zmq "github.com/pebbe/zmq4"
)

const (
	// receiveTimeout is how long a socket waits for a message before it looks whether it
	// is still wanted.
	receiveTimeout = 100 * time.Millisecond
	// reconnect is how soon a peer that went away is tried again at first, and at most
	// four times that: a master that is back is to be heard within a second.
	reconnect = 100 * time.Millisecond
	// kernelBuffer is how much of a connection, in bytes, may be under way: accounting
	// that a busy master reads late is worth little, and the kernel's own choice is
	// megabytes, which are tens of thousands of messages.
	kernelBuffer = 256 << 10
	// maxFrame bounds what a peer can have a socket take in; it is cut off beyond.
	maxFrame = 64 << 10
	// maxFrames is how many frames of a message are kept.
	maxFrames = 8
)

// Wire is what the sockets of one program have in common. It is closed after all
// of them.
type Wire struct{ context *zmq.Context }

// OpenWire makes a Wire. Its error is ErrNoZeroMQ in a program without ZeroMQ.
func OpenWire() (*Wire, error) {
	c, err := zmq.NewContext()
	if err != nil {
		return nil, fmt.Errorf("ZeroMQ: %w", err)
	}
	return &Wire{c}, nil
}

// Close ends it.
func (w *Wire) Close() { _ = w.context.Term() } // fails only if it is closed

// socket is for the goroutine that made it, and for no other. A publisher is made
// as XPUB: to subscribers it is the same, but it is told who they are.
type socket struct{ zmq *zmq.Socket }

// subscriber binds or connects a SUB socket. No topic is all topics: the empty
// one.
func (w *Wire) subscriber(queue int, bind bool, address string, topics ...string) (*socket, error) {
	return w.open(zmq.SUB, address, func(s *zmq.Socket) error {
		err := errors.Join(s.SetRcvhwm(queue), s.SetRcvtimeo(receiveTimeout))
		for _, topic := range topics {
			err = errors.Join(err, s.SetSubscribe(topic))
		}
		return errors.Join(err, attach(s, bind, address))
	})
}

// publisher binds or connects an XPUB socket. With all, it hears of each subscriber, and not
// only of each topic.
//
// Its messages go to connected peers only, and are dropped with the connection; otherwise they
// would queue while a master is away, and be charged when it is back.
//
// Messages without room at a peer are dropped. If connected, to a single peer, send reports
// that; if bound, it does not, because otherwise the slowest peer would make all others wait.
func (w *Wire) publisher(queue int, bind bool, address string, all bool) (*socket, error) {
	return w.open(zmq.XPUB, address, func(s *zmq.Socket) error {
		err := errors.Join(s.SetSndhwm(queue), s.SetImmediate(true), s.SetXpubNodrop(!bind))
		if all {
			err = errors.Join(err, s.SetXpubVerboser(1))
		}
		return errors.Join(err, attach(s, bind, address))
	})
}

func (w *Wire) open(t zmq.Type, address string, set func(*zmq.Socket) error) (*socket, error) {
	s, err := w.context.NewSocket(t)
	if err == nil {
		err = errors.Join(
			s.SetLinger(0), s.SetMaxmsgsize(maxFrame), s.SetIpv6(true), s.SetSndbuf(kernelBuffer), s.SetRcvbuf(kernelBuffer),
			s.SetReconnectIvl(reconnect), s.SetReconnectIvlMax(4*reconnect),
			s.SetTcpKeepalive(1), s.SetTcpKeepaliveIdle(10), s.SetTcpKeepaliveIntvl(5), s.SetTcpKeepaliveCnt(3),
		)
		if err = errors.Join(err, set(s)); err != nil {
			_ = s.Close() // the first error is the one to tell
		}
	}
	if err != nil {
		return nil, fmt.Errorf("ZeroMQ: %s: %w", address, err)
	}
	return &socket{s}, nil
}

func attach(s *zmq.Socket, bind bool, address string) error {
	if bind {
		return s.Bind(address)
	}
	return s.Connect(address)
}

func (s *socket) close() { _ = s.zmq.Close() } // fails only if it is closed

// receive returns the next message, as new memory, or nil if none came for a
// while.
func (s *socket) receive() ([][]byte, error) { return s.next(0) }

// poll is receive without waiting.
func (s *socket) poll() ([][]byte, error) { return s.next(zmq.DONTWAIT) }

func (s *socket) next(flags zmq.Flag) ([][]byte, error) {
	frames := make([][]byte, 0, maxFrames)
	for {
		frame, err := s.zmq.RecvBytes(flags)
		if err != nil {
			if zmq.AsErrno(err) == zmq.Errno(syscall.EAGAIN) {
				return nil, nil
			}
			return nil, fmt.Errorf("ZeroMQ: %w", err)
		}
		if len(frames) < maxFrames {
			frames = append(frames, frame)
		}
		if more, err := s.zmq.GetRcvmore(); err != nil {
			return nil, fmt.Errorf("ZeroMQ: %w", err)
		} else if !more {
			return frames, nil
		}
	}
}

// send publishes a message. It never waits.
func (s *socket) send(frames [][]byte) error {
	last := len(frames) - 1
	for i, frame := range frames {
		flags := zmq.DONTWAIT
		if i < last {
			flags |= zmq.SNDMORE
		}
		if _, err := s.zmq.SendBytes(frame, flags); err != nil {
			return fmt.Errorf("ZeroMQ: %w", err)
		}
	}
	return nil
}
