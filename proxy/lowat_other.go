//go:build !linux

package proxy

import "net"

func boundUnsent(net.Conn) {}
