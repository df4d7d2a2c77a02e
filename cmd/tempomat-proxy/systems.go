package main

import (
	"strings"

	"go.uber.org/zap"

	"tempomat/cmd/internal/policy"
	"tempomat/config"
	"tempomat/proxy/savedsyn"
)

// keepSystems has the kernel keep how clients' systems open connections, if a class goes by
// that.
func (s *sidecar) keepSystems(c *config.Config) {
	if !policy.GoesBySystems(c) {
		return
	}
	for _, socket := range s.replaced.sockets {
		if strings.HasPrefix(socket.Address, "unix:") {
			continue
		}
		if err := savedsyn.Keep(socket.Listener); err != nil {
			s.logs.log.Warn("class tcpFingerprint has no keys at this address; a socket that was opened without the class needs a restart",
				zap.String("address", socket.Address), zap.Error(err))
		}
	}
}
