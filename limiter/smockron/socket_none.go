//go:build !cgo

package smockron

// Without cgo there is no ZeroMQ: all compiles, and says so when it is asked for.

// Wire has no sockets.
type Wire struct{}

// OpenWire fails.
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
