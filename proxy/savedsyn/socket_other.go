//go:build !linux || !(amd64 || arm64)

package savedsyn

import (
	"errors"
	"net"
)

// Keep is for Linux only.
func Keep(net.Listener) error { return errors.ErrUnsupported }

// Read is for Linux only: no packet is kept.
func Read(net.Conn) string { return "" }
