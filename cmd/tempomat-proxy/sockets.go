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

// open takes over the inherited sockets that are in listen, and opens the other addresses. Sockets that
// systemd passed (LISTEN_FDS) are always served.
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
		log.Info("serving the sockets that systemd passed (LISTEN_FDS); no other address in listen is opened")
		warnUnserved(c, supervised, log)
		s.unserved = append(s.unserved, served...)
		s.forgetUnserved()
		return supervised, nil
	}
	taken, missing, rest := match(served, addresses(c.Listen))
	s.unserved = append(s.unserved, rest...)
	if len(taken) > 0 && s.inherited.From == nil {
		log.Info("serving sockets that the service manager kept", zap.Int("sockets", len(taken)))
	}
	s.forgetUnserved() // close these first, because they may use the same ports
	opened, err := listen(ctx, missing)
	for tries := 0; errors.Is(err, syscall.EADDRINUSE) && len(rest) > 0 && s.inherited.From == nil && tries < freedTries && ctx.Err() == nil; tries++ {
		time.Sleep(freedPause)
		opened, err = listen(ctx, missing)
	}
	return append(taken, opened...), err
}

// forgetUnserved closes inherited sockets that aren't served, here and in systemd's store. It does nothing while
// another process still serves them. Call it again after that process has ended.
func (s *sidecar) forgetUnserved() {
	if s.inherited.From == nil && len(s.unserved) > 0 {
		handover.Close(s.unserved)
		s.fdStore.forget(s.unserved, s.logs.log)
		s.unserved = nil
	}
}

// listen opens all addresses, or none of them.
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

// match finds the sockets for the addresses. It also returns addresses without a socket, and sockets without
// an address. If a socket matches an address that is written differently, the socket's Address becomes that
// address.
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

// isAlike reports whether a socket listens on an address, even if the two are written differently.
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
		if want.IP == nil { // all addresses of IPv4 and IPv6
			want.IP = net.IPv6unspecified
		}
		return want.IP.Equal(at.IP) && want.Zone == at.Zone
	}
	return false
}

// refuseCircle returns an error if the backend is one of the proxy's own sockets. The check of the configuration isn't
// enough, because inherited sockets, or those opened before a reload, may have addresses that aren't in
// listen.
func refuseCircle(c *config.Config, sockets []handover.Socket) error {
	for _, s := range sockets {
		address := s.Addr().String()
		if s.Addr().Network() == "unix" {
			address = "unix:" + address
		}
		if c.Backend.IsServedAt(address) {
			return fmt.Errorf("backend: %s: this is the proxy's own address (%s), so requests would loop. Set the address of the web server", c.Backend.URL, address)
		}
	}
	return nil
}

// warnUnserved logs the addresses in listen for which systemd passed no socket, because an administrator who set them
// expects the site to be served at these addresses. It ignores the default of listen.
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

// fdStore is systemd's store of this service's sockets. The store makes clients that connect during a restart wait
// instead of being refused. Only one goroutine at a time may use it.
type fdStore struct {
	handover.Store
	addresses []string // of the sockets in the store
}

// systemd closes a socket a moment after the request to remove it. Until then, the port can't be opened, so listen
// tries several times, with a pause in between.
const (
	freedTries = 500
	freedPause = 10 * time.Millisecond
)

func newFDStore() *fdStore {
	return &fdStore{Store: handover.Store{Notify: os.Getenv("NOTIFY_SOCKET")}}
}

// adopt records the sockets that the previous process put into the store.
func (f *fdStore) adopt(sockets []handover.Socket) {
	for _, s := range sockets {
		if s.Address != "" {
			f.addresses = append(f.addresses, s.Address)
		}
	}
}

// forget removes sockets from the store.
func (f *fdStore) forget(sockets []handover.Socket, log *zap.Logger) {
	var err error
	for _, s := range sockets {
		err = errors.Join(err, f.Forget(s.Address))
	}
	if err = errors.Join(err, f.Wait()); err != nil {
		log.Warn("systemd may keep sockets that no process serves", zap.Error(err))
	}
}

// update puts the sockets that are served now into the store, and removes all others.
func (f *fdStore) update(sockets []handover.Socket, log *zap.Logger) {
	var all error
	for _, a := range f.addresses {
		if !slices.ContainsFunc(sockets, func(s handover.Socket) bool { return s.Address == a }) {
			all = errors.Join(all, f.Forget(a))
		}
	}
	f.addresses = nil
	for _, s := range sockets {
		if s.Address == "" { // systemd keeps this socket anyway
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

// giveUp removes all sockets from the store, and connections are then refused. Call it when this process can't serve
// and no other is known to start soon, or when another program takes over the ports.
func (f *fdStore) giveUp() {
	for _, a := range f.addresses {
		_ = f.Forget(a) // the process ends anyway, with an error that explains why
	}
	if len(f.addresses) > 0 {
		_ = f.Wait()
	}
}
