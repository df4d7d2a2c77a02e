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
	// receiveTimeout is how long a socket waits for a message before it checks whether it should end.
	receiveTimeout = 100 * time.Millisecond
	// reconnect is the first pause before a socket tries to reach a lost peer again; later pauses are at most
	// four times as long. A master that has come back is therefore reached within a second.
	reconnect = 100 * time.Millisecond
	// kernelBuffer limits the bytes that the kernel buffers for a connection. The kernel's default of several
	// megabytes would hold tens of thousands of messages, but accounting that is read late is worth little.
	kernelBuffer = 256 << 10
	// maxFrame is the largest size of a frame from a peer. ZeroMQ closes the connection of a peer that exceeds
	// it.
	maxFrame = 64 << 10
	// maxFrames is how many frames of a message are kept.
	maxFrames = 8
)

// Wire is the ZeroMQ context that all sockets of a program share. Close it after all of them.
type Wire struct{ context *zmq.Context }

// OpenWire makes a Wire. In a program without ZeroMQ, it returns ErrNoZeroMQ.
func OpenWire() (*Wire, error) {
	c, err := zmq.NewContext()
	if err != nil {
		return nil, fmt.Errorf("ZeroMQ: %w", err)
	}
	return &Wire{c}, nil
}

// Close ends the context.
func (w *Wire) Close() { _ = w.context.Term() } // fails only if it is already closed

// socket is a ZeroMQ socket. Only the goroutine that made it may use it. Publishers are XPUB sockets.
// Subscribers notice no difference from PUB, but the publisher learns which peers subscribe.
type socket struct{ zmq *zmq.Socket }

// subscriber opens a SUB socket, and binds it to the address or connects it. The empty topic means all topics.
func (w *Wire) subscriber(queue int, bind bool, address string, topics ...string) (*socket, error) {
	return w.open(zmq.SUB, address, func(s *zmq.Socket) error {
		err := errors.Join(s.SetRcvhwm(queue), s.SetRcvtimeo(receiveTimeout))
		for _, topic := range topics {
			err = errors.Join(err, s.SetSubscribe(topic))
		}
		return errors.Join(err, attach(s, bind, address))
	})
}

// publisher opens an XPUB socket. It binds the socket to the address, or connects it. If all is true, the
// socket reports each subscriber; otherwise it reports each topic only once.
//
// Messages are sent only to connected peers, and are dropped when the connection ends. Otherwise, messages
// would be queued while a master is unreachable, and clients would be charged for old requests when the master
// comes back.
//
// If there is no room for a peer's message, the message is dropped. A connecting socket, which has a single
// peer, then returns an error. A binding socket doesn't, because all peers would then have to wait for the
// slowest.
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
			_ = s.Close() // only the first error is returned
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

func (s *socket) close() { _ = s.zmq.Close() } // fails only if it is already closed

// receive returns the next message as newly allocated memory, or nil if none arrived within receiveTimeout.
func (s *socket) receive() ([][]byte, error) { return s.next(0) }

// poll does what receive does, but doesn't wait.
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

// send publishes a message. It never blocks.
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
