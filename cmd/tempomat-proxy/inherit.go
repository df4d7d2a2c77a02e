package main

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/proxy/handover"
)

// firstInherited is the first descriptor that systemd hands over (sd_listen_fds(3)).
const firstInherited = 3

// mostInherited is more than anybody hands over; an environment may say anything.
const mostInherited = 4096

// inheritedNames are those of the descriptors that whoever started this process hands over,
// one for each; empty: it has none.
func inheritedNames() []string {
	pid, _ := strconv.Atoi(os.Getenv("LISTEN_PID"))
	n, _ := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	if pid != os.Getpid() || n <= 0 {
		return nil
	}
	names := make([]string, min(n, mostInherited))
	copy(names, strings.Split(os.Getenv("LISTEN_FDNAMES"), ":"))
	return names
}

// inherited are the sockets that whoever started this process listens at for it. They
// stay open as it ends: who connects while it is started anew waits, and is not refused.
// Those of kept were this service's own, and have an address.
func inherited() (sockets, kept []handover.Socket, err error) {
	names := inheritedNames()
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} { // not for what this one starts
		if err := os.Unsetenv(name); err != nil {
			return nil, nil, err
		}
	}
	for i, name := range names {
		fd := firstInherited + i
		syscall.CloseOnExec(fd)
		f := os.NewFile(uintptr(fd), "inherited")
		l, err := net.FileListener(f)
		_ = f.Close() // the listener has one of its own
		if err != nil {
			handover.Close(append(sockets, kept...))
			return nil, nil, fmt.Errorf("descriptor %d, which was handed over (LISTEN_FDS), is no listening socket: %w", fd, err)
		}
		s := handover.Socket{Listener: l, Role: roleServe}
		if address, ok := handover.KeptAddress(name); ok {
			s.Address, s.Owned = address, true
			kept = append(kept, s)
		} else {
			sockets = append(sockets, s)
		}
	}
	return sockets, kept, nil
}

// servedAt are the addresses of sockets, as listen has them.
func servedAt(sockets []handover.Socket) (all []string) {
	for _, s := range sockets {
		a := s.Addr()
		if a.Network() == "unix" {
			all = append(all, "unix:"+a.String())
			continue
		}
		all = append(all, a.String())
	}
	return all
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
