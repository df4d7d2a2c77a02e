package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/proxy"
	"tempomat/proxy/handover"
)

// open takes over those of the inherited sockets that listen names, and opens the others. A
// supervisor's sockets are always served.
func (s *sidecar) open(ctx context.Context) ([]handover.Socket, error) {
	c, log := s.config, s.logs.log
	var served, supervised []handover.Socket
	for _, i := range s.inherited.Sockets {
		if i.Address == "" {
			supervised = append(supervised, i)
		} else {
			served = append(served, i)
		}
	}
	if len(supervised) > 0 {
		log.Info("serves sockets that were handed over (LISTEN_FDS): listen opens none")
		warnUnserved(c, supervised, log)
		s.unserved = append(s.unserved, served...)
		s.forgetUnserved()
		return supervised, nil
	}
	taken, missing, rest := match(served, addresses(c.Listen))
	s.unserved = append(s.unserved, rest...)
	if len(taken) > 0 && s.inherited.From == nil {
		log.Info("serves sockets that the service manager has kept", zap.Int("sockets", len(taken)))
	}
	s.forgetUnserved() // before others are opened: they may be at the same port
	opened, err := listen(ctx, missing)
	for tries := 0; errors.Is(err, syscall.EADDRINUSE) && len(rest) > 0 && s.inherited.From == nil && tries < freedTries && ctx.Err() == nil; tries++ {
		time.Sleep(freedPause)
		opened, err = listen(ctx, missing)
	}
	return append(taken, opened...), err
}

// forgetUnserved closes the inherited sockets that are not served, here and at the service
// manager; if another process still serves them, once that is over.
func (s *sidecar) forgetUnserved() {
	if s.inherited.From == nil && len(s.unserved) > 0 {
		handover.Close(s.unserved)
		s.fdStore.forget(s.unserved, s.logs.log)
		s.unserved = nil
	}
}

// listen opens all addresses, or none.
func listen(ctx context.Context, addresses []string) (sockets []handover.Socket, err error) {
	for _, a := range addresses {
		l, e := proxy.Listen(ctx, a)
		if e != nil {
			err = errors.Join(err, withHint(fmt.Errorf("listen on %s: %w", a, e), a))
			continue
		}
		sockets = append(sockets, handover.Socket{Listener: l, Address: a})
	}
	if err != nil {
		handover.Close(sockets)
		return nil, err
	}
	return sockets, nil
}

// match finds the sockets that addresses name, and what is left of either. Those that are
// taken have the spelling of the addresses.
func match(offered []handover.Socket, addresses []string) (taken []handover.Socket, missing []string, rest []handover.Socket) {
	rest = slices.Clone(offered)
	for _, a := range addresses {
		i := slices.IndexFunc(rest, func(s handover.Socket) bool { return isAlike(a, s) })
		if i < 0 {
			missing = append(missing, a)
			continue
		}
		s := rest[i]
		s.Address = a
		taken, rest = append(taken, s), slices.Delete(rest, i, i+1)
	}
	return taken, missing, rest
}

// isAlike reports whether a socket listens where an address says, even if another
// spelling of it was given.
func isAlike(address string, s handover.Socket) bool {
	if address == s.Address {
		return true
	}
	switch at := s.Addr().(type) {
	case *net.UnixAddr:
		return address == "unix:"+at.Name
	case *net.TCPAddr:
		if strings.HasPrefix(address, "unix:") {
			return false
		}
		want, err := net.ResolveTCPAddr("tcp", address)
		if err != nil || want.Port == 0 || want.Port != at.Port {
			return false
		}
		if want.IP == nil { // all addresses of both kinds
			want.IP = net.IPv6unspecified
		}
		return want.IP.Equal(at.IP) && want.Zone == at.Zone
	}
	return false
}

// servedAt are the addresses of sockets, in the form of listen.
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

// warnUnserved logs the addresses in listen without a socket that was handed over: an
// administrator who set them expects the site there. It ignores the default.
func warnUnserved(c *config.Config, sockets []handover.Socket, log *zap.Logger) {
	if slices.Equal(c.Listen, config.Default().Listen) {
		return
	}
	for _, l := range c.Listen {
		if !slices.ContainsFunc(sockets, func(s handover.Socket) bool { return isAlike(l.Address, s) }) {
			log.Warn("not serving a listen address: systemd passed other sockets (LISTEN_FDS). "+
				"Add it to the socket unit as ListenStream, or disable the unit", zap.String("address", l.Address))
		}
	}
}

// fdStore is the service manager's store of this service's sockets: clients that connect during a
// restart then wait. It is for one goroutine at a time. A nil one keeps nothing.
type fdStore struct {
	handover.Store
	addresses []string // of those that are kept
}

// The manager closes what it is to forget a moment after it was told: a port of it is tried
// again so often, with such a pause.
const (
	freedTries = 500
	freedPause = 10 * time.Millisecond
)

func newFDStore() *fdStore {
	return &fdStore{Store: handover.Store{Notify: os.Getenv("NOTIFY_SOCKET")}}
}

// adopt notes that sockets are kept since the process before this one.
func (f *fdStore) adopt(sockets []handover.Socket) {
	for _, s := range sockets {
		if s.Address != "" {
			f.addresses = append(f.addresses, s.Address)
		}
	}
}

// forget has sockets kept no longer.
func (f *fdStore) forget(sockets []handover.Socket, log *zap.Logger) {
	var err error
	for _, s := range sockets {
		err = errors.Join(err, f.Forget(s.Address))
	}
	if err = errors.Join(err, f.Wait()); err != nil {
		log.Warn("systemd may keep sockets that no process serves", zap.Error(err))
	}
}

// update has sockets kept, which are served from now on, and no others.
func (f *fdStore) update(sockets []handover.Socket, log *zap.Logger) {
	if f == nil {
		return
	}
	var all error
	for _, a := range f.addresses {
		if !slices.ContainsFunc(sockets, func(s handover.Socket) bool { return s.Address == a }) {
			all = errors.Join(all, f.Forget(a))
		}
	}
	f.addresses = nil
	for _, s := range sockets {
		if s.Address == "" { // a supervisor has it
			continue
		}
		kept, err := f.Keep(s)
		all = errors.Join(all, err)
		if kept {
			f.addresses = append(f.addresses, s.Address)
		}
	}
	if all != nil {
		log.Warn("a restart may refuse connections: the service manager does not keep all sockets", zap.Error(all))
	}
}

// giveUp removes all sockets from the store, because this process cannot serve and it is
// unknown when the next one can, or because another program gets the ports. Clients that
// connect are then refused.
func (f *fdStore) giveUp() {
	if f == nil {
		return
	}
	for _, a := range f.addresses {
		_ = f.Forget(a) // the process ends with an error of its own
	}
	if len(f.addresses) > 0 {
		_ = f.Wait()
	}
}
