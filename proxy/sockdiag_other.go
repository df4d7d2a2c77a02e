//go:build !linux

package proxy

import "errors"

type diagSocket struct{}

func openDiag() (*diagSocket, error) {
	return nil, errors.New("ask the kernel about sockets: only on Linux")
}

func (*diagSocket) close() {}

func (*diagSocket) inet(uint16, func(listening)) bool { return false }

func (*diagSocket) unix(func(listening)) bool { return false }
