//go:build !linux

package host

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"tempomat/cpuaccount/process"
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

// CostSocket is the Unix socket that workers tell by.
type CostSocket struct{}

// OpenCostSocket makes the socket.
func OpenCostSocket(string) (*CostSocket, error) {
	return nil, errors.New("listen for workers: only on Linux")
}

func (*CostSocket) run(context.Context, *claims, *Numbers) {}

type system struct{}

func (system) Nice(process.ID) (int, error)         { return 0, errors.ErrUnsupported }
func (system) SetNice(int, int) error               { return errors.ErrUnsupported }
func (system) Alone(int) bool                       { return false }
func (system) Parent(process.ID) (process.ID, bool) { return process.ID{}, false }

func probe() (int, error) { return 0, errors.ErrUnsupported }

func threadTime() time.Duration { return 0 }
