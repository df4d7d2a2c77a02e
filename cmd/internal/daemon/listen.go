package daemon

import (
	"context"
	"net"
	"net/http"
	"time"

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
