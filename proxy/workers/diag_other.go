//go:build !linux

package workers

import (
	"errors"
	"net/netip"
)

type diag struct{}

func openDiag() (*diag, error) {
	return nil, errors.New("ask the kernel about sockets: only on Linux")
}

func (*diag) close()                                       {}
func (*diag) tcp(netip.AddrPort, netip.AddrPort) socket    { return socket{} }
func (*diag) unix(uint32) socket                           { return socket{} }
func (*diag) eachTCP(uint32, uint16, uint16, func(socket)) {}
func (*diag) eachUnix(uint32, func(socket))                {}
