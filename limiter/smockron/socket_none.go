//go:build !cgo

package smockron

// Without cgo there is no ZeroMQ: all compiles, and says so when it is asked for.

type wire struct{}

func newWire() (*wire, error) { return nil, ErrNoZeroMQ }

func (*wire) close() {}

type socket struct{}

func (*wire) subscriber(int, bool, string, ...string) (*socket, error) { return nil, ErrNoZeroMQ }

func (*wire) publisher(int, bool, string, bool) (*socket, error) { return nil, ErrNoZeroMQ }

func (*socket) close() {}

func (*socket) receive() ([][]byte, error) { return nil, ErrNoZeroMQ }

func (*socket) poll() ([][]byte, error) { return nil, ErrNoZeroMQ }

func (*socket) send([][]byte) error { return ErrNoZeroMQ }
