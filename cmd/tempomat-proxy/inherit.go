package main

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"syscall"

	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/proxy/handover"
)

// firstInherited is the first descriptor that systemd hands over (sd_listen_fds(3)).
const firstInherited = 3

// inherited are the sockets that whoever started this process listens at for it. They
// stay open as it ends: who connects while it is started anew waits, and is not refused.
func inherited() (sockets []handover.Socket, err error) {
	pid, _ := strconv.Atoi(os.Getenv("LISTEN_PID"))
	n, _ := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if pid != os.Getpid() || n <= 0 {
		return nil, nil
	}
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} { // not for what this one starts
		if err := os.Unsetenv(name); err != nil {
			return nil, err
		}
	}
	for fd := firstInherited; fd < firstInherited+n; fd++ {
		syscall.CloseOnExec(fd)
		f := os.NewFile(uintptr(fd), "inherited")
		l, err := net.FileListener(f)
		_ = f.Close() // the listener has one of its own
		if err != nil {
			handover.Close(sockets)
			return nil, fmt.Errorf("descriptor %d, which was handed over (LISTEN_FDS), is no listening socket: %w", fd, err)
		}
		sockets = append(sockets, handover.Socket{Listener: l, Role: roleServe})
	}
	return sockets, nil
}

// warnUnserved logs the addresses that listen names and that no socket which was handed over
// stands for: whoever set them expects the site there. The default is nobody's wish.
func warnUnserved(c *config.Config, sockets []handover.Socket, log *zap.Logger) {
	if slices.Equal(c.Listen, config.Default().Listen) {
		return
	}
	for _, l := range c.Listen {
		if !slices.ContainsFunc(sockets, func(s handover.Socket) bool { return isAlike(l.Address, s) }) {
			log.Warn("nobody serves an address of listen, as other sockets were handed over (LISTEN_FDS); "+
				"put it into the socket unit, as ListenStream, or disable that", zap.String("address", l.Address))
		}
	}
}
