// Package daemon contains code that the programs share. All of them parse a command line, return an exit status,
// read secrets and replace files. The proxy and the master also log, notify systemd, reload, and serve metrics
// and the admin API.
package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"
	"golang.org/x/net/netutil"

	"tempomat/proxy/host"
)

// mostScrapers is the highest number of connections to the address for metrics. Without a limit, clients that
// only connect could use up the file descriptors that the program needs.
const mostScrapers = 32

// ListenMetrics listens on the "host:port" where Prometheus reads metrics. If the address is empty, it returns nil.
// If listening fails, it logs the error and returns nil, and the program runs without metrics.
func ListenMetrics(ctx context.Context, address string, log *zap.Logger) net.Listener {
	if address == "" {
		return nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		log.Error("can't listen on the metrics address; Prometheus can't read the metrics", zap.Error(err))
		return nil
	}
	log.Info("serving metrics", zap.Stringer("address", l.Addr()))
	return netutil.LimitListener(l, mostScrapers)
}

// ListenAdmin opens the Unix socket of the admin API, "unix:/path". If the address is empty, it returns nil. If
// opening fails, it logs the error and returns nil, and the program runs without the API.
func ListenAdmin(ctx context.Context, address string, log *zap.Logger) net.Listener {
	if address == "" {
		return nil
	}
	l, err := host.ListenUnix(ctx, strings.TrimPrefix(address, "unix:"))
	if err != nil {
		log.Error("can't open the admin socket; tempomat-doctor won't work", zap.String("admin.listen", address), zap.Error(err))
		return nil
	}
	return l
}

// Serve answers requests on l until the context ends, and closes l. It cuts off requests in progress,
// because clients can repeat them. what names the server in the log.
func Serve(ctx context.Context, l net.Listener, h http.Handler, what string, log *zap.Logger) {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: zap.NewStdLog(log.Named(what)),
	}
	end := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer end()
	if err := s.Serve(l); ctx.Err() == nil {
		log.Error(what+" stopped unexpectedly", zap.Error(err))
	}
}

// Ready, Stopping and Watchdog are messages to systemd (sd_notify(3)).
const (
	Ready    = systemd.SdNotifyReady
	Stopping = systemd.SdNotifyStopping
	Watchdog = systemd.SdNotifyWatchdog
)

// Reloading returns the message that the configuration is being read again. Send Ready after reading it.
func Reloading() string {
	return systemd.SdNotifyReloading + "\n" + systemd.SdNotifyMonotonicUsec() // the time, which Type=notify-reload needs
}

// MainPID returns the message that another process takes over the service.
func MainPID(pid int) string { return fmt.Sprintf("MAINPID=%d", pid) }

// Notify sends a message to systemd. It does nothing if systemd didn't ask for messages.
func Notify(log *zap.Logger, state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		log.Warn("can't report the state to systemd", zap.String("state", state), zap.Error(err))
	}
}
