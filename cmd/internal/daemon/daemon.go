// Package daemon is what the programs do alike: they read a command line and end with a status, read secrets and replace files;
// proxy and master log, tell systemd how they are, reload, and listen for those who look at them.
package daemon

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
	"golang.org/x/net/netutil"
)

// mostScrapers is how many connections there are at a time where Prometheus asks: who only
// connects is not to use up the descriptors that the program needs.
const mostScrapers = 32

// ListenMetrics listens where Prometheus asks, "host:port"; nil if the address is empty or
// cannot be had, which the log tells: what the program is for goes on without.
func ListenMetrics(ctx context.Context, address string, log *zap.Logger) net.Listener {
	if address == "" {
		return nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		log.Error("no metrics", zap.Error(err))
		return nil
	}
	log.Info("metrics", zap.Stringer("address", l.Addr()))
	return netutil.LimitListener(l, mostScrapers)
}

// Serve answers on l until the context ends, and closes it. Requests under way are cut
// then: a look that is cut is taken again. What names the server in the log.
func Serve(ctx context.Context, l net.Listener, h http.Handler, what string, log *zap.Logger) {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: zap.NewStdLog(log.Named(what)),
	}
	end := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer end()
	if err := s.Serve(l); ctx.Err() == nil {
		log.Error(what+" ended", zap.Error(err))
	}
}

// What systemd can be told (sd_notify(3)).
const (
	Ready    = systemd.SdNotifyReady
	Stopping = systemd.SdNotifyStopping
	Watchdog = systemd.SdNotifyWatchdog
)

// Reloading is that the configuration is read again from now on; Ready ends it.
func Reloading() string {
	return systemd.SdNotifyReloading + "\n" + systemd.SdNotifyMonotonicUsec() // when, for Type=notify-reload
}

// MainPID is that another process is the service's from now on.
func MainPID(pid int) string { return fmt.Sprintf("MAINPID=%d", pid) }

// Notify tells systemd, if it asked to be told.
func Notify(log *zap.Logger, state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		log.Warn("systemd did not get the state", zap.String("state", state), zap.Error(err))
	}
}

// Authorities reads who may sign certificates, of a PEM file that a configuration names; nil,
// without a file, are those of the system. The error names the key.
func Authorities(key, file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: %s holds no certificate", key, file)
	}
	return pool, nil
}
