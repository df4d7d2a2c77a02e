//go:build !cgo

package smockron

// Without cgo, there is no ZeroMQ. Everything still compiles, and OpenWire returns an error.

// Wire stands for the type in programs with ZeroMQ. No value of this type exists.
type Wire struct{}

// OpenWire returns ErrNoZeroMQ.
func OpenWire() (*Wire, error) { return nil, ErrNoZeroMQ }

// Close does nothing.
func (*Wire) Close() {}

type socket struct{}

func (*Wire) subscriber(int, bool, string, ...string) (*socket, error) { return nil, ErrNoZeroMQ }

func (*Wire) publisher(int, bool, string, bool) (*socket, error) { return nil, ErrNoZeroMQ }

func (*socket) close() {}

func (*socket) receive() ([][]byte, error) { return nil, ErrNoZeroMQ }

func (*socket) poll() ([][]byte, error) { return nil, ErrNoZeroMQ }

func (*socket) send([][]byte) error { return ErrNoZeroMQ }
