//go:build !linux

package handover

import (
	"errors"
	"net"
)

func peer(*net.UnixConn) (pid int, uid uint32, err error) {
	return 0, 0, errors.New("who asks is not known on this system")
}
