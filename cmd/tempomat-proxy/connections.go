package main

import (
	"net"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"tempomat/proxy"
	"tempomat/proxy/connlimit"
	"tempomat/proxy/descriptors"
)

// connections bound how many are open, by the descriptors that there are.
type connections struct {
	table   *connlimit.Table
	reserve *descriptors.Reserve
	log     *zap.Logger
}

func newConnections(now time.Time, log *zap.Logger) (*connections, error) {
	limit, err := descriptors.Limit()
	if err != nil {
		return nil, err
	}
	reserve, err := descriptors.NewReserve()
	if err != nil {
		return nil, err
	}
	return &connections{table: connlimit.New(now, descriptors.ForClients(limit)), reserve: reserve, log: proxy.Capped(log)}, nil
}

// guard has listeners go on where there is no descriptor left.
func (c *connections) guard(listeners []net.Listener) []net.Listener {
	guarded := make([]net.Listener, len(listeners))
	for i, l := range listeners {
		guarded[i] = c.reserve.Clients(l, c.full)
	}
	return guarded
}

// full makes room for a connection that cannot be accepted.
func (c *connections) full(err error) {
	if c.table.Shed() {
		c.log.Warn("no descriptor was left for a connection: another one was closed", zap.Error(err))
	} else {
		c.log.Error("no descriptor is left for a connection, and none can be closed", zap.Error(err))
	}
}

// peer tells who has connected.
func (s *sidecar) peer(remote string) (peer netip.Addr, trusted bool) {
	return s.handler.Policy().Classifier.Peer(remote)
}
