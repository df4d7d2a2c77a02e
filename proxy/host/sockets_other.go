//go:build !linux

package host

import (
	"errors"
	"net/netip"
)

// Sockets asks the kernel about sockets.
type Sockets struct{}

// OpenSockets fails.
func OpenSockets() (*Sockets, error) {
	return nil, errors.New("ask the kernel about sockets: only on Linux")
}

// Close closes it.
func (*Sockets) Close() {}

// TCP finds none.
func (*Sockets) TCP(netip.AddrPort, netip.AddrPort) Socket { return Socket{} }

// Unix finds none.
func (*Sockets) Unix(uint32) Socket { return Socket{} }

// EachTCP finds none.
func (*Sockets) EachTCP(State, uint16, uint16, func(Socket)) bool { return false }

// EachUnix finds none.
func (*Sockets) EachUnix(State, func(Socket)) bool { return false }
