package admin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"
)

// mostConnections is how many may be open over TCP; a viewer has two. More wait until one of them
// closes. One that brings no request is closed after 5 s, an idle one after a minute.
const mostConnections = 128

// ListenWeb opens the address that browsers come to, "host:port".
func ListenWeb(ctx context.Context, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("admin.web: %w", err)
	}
	return l, nil
}

// ServeWeb answers on l, a listener of TCP, until Shutdown and closes l. Everybody needs the
// token, but for the page itself. It returns nil after Shutdown, else why it ended.
func (a *Server) ServeWeb(l net.Listener) error {
	return serve(a.web, netutil.LimitListener(l, mostConnections))
}

// newServer is for handlers that answer at once. Those that do not move their deadlines
// themselves.
func newServer(h http.Handler, write time.Duration, log *zap.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      write,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ConnContext:       withPeer,
		ErrorLog:          zap.NewStdLog(log.Named("admin")),
	}
}
