// Package admin serves the admin API for the doctor and the dashboard: JSON over HTTP, at a
// unix socket and over TCP. Package api has its documents.
//
// A request passes the guard, and comes to a route.
//
//	admin.go   the parts, the listeners and the servers
//	guard.go   who may ask: the socket's users, the token, the names that it may be asked for by; and who asks
//	routes.go  the paths, what may be asked of each, documents and errors
//	views.go   what the paths answer
//	page.go    the dashboard
package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"

	"tempomat/limiter"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/host"
	"tempomat/proxy/telemetry"
)

// Inspector looks at single clients, pages and requests. An error says what cannot be asked for. Its
// methods must be safe for concurrent use.
type Inspector interface {
	// Queue is the waiting requests, at most limit of them.
	Queue(now time.Time, limit int) api.QueueReply
	// Explain returns what is known of something.
	Explain(now time.Time, of string) (api.ExplainReply, error)
	Actor
}

// Actor acts for a single client. By names the user who asked for it; an error says what was not
// allowed.
type Actor interface {
	Forgive(now time.Time, by string, a api.ActRequest) (api.ActReply, error)
	Pin(now time.Time, by string, a api.ActRequest) (api.ActReply, error)
	Pins(now time.Time) api.PinsReply
}

// Inside is what requests add up to. All functions must be safe for concurrent use.
type Inside struct {
	Overview func() api.OverviewReply
	Shapes   func(limit int) api.ShapesReply
	Recent   func(limit int, each bool) api.RecentReply // each: those alike are not one row
	Series   func(minutes int) (api.SeriesReply, bool)  // false: there is none of so many minutes
}

// Options are the parts that the admin API shows or sets going. All
// functions must be safe for concurrent use.
type Options struct {
	Ledger        telemetry.Ledger
	Now           func() time.Time
	Status        func() api.StatusReply // except for Goroutines and Conditions
	Gate          func() limiter.GateState
	Proof         func(k limiter.Key) string // what limiter.Row tells; nil: nothing is told of robots
	Kernel        func() api.Kernel          // nil: nothing is told of the kernel's help
	Share         func() api.ShareReply
	Inspector     Inspector
	Conditions    func() []api.Condition // what is wrong now, the worst first; nil: not checked
	Ready         func() error           // nil while the proxy takes requests
	Reload        func() error           // reads the configuration again; its error lists every fault
	Waiting       func() []string        // keys that a reload could not put in force, and a restart does; nil: there are none
	ReloadTimeout time.Duration          // longest that a client waits for Reload; 0: 20 s
	Inside        Inside
	History       func(hours int) api.HistoryReply // nil: none is kept
	Access        *Access                          // access over TCP; nil: none
	Log           *zap.Logger                      // nil: nothing is logged
}

// Server serves the admin API. Its methods may be called concurrently.
type Server struct {
	opts    Options
	reloads chan struct{} // holds a token while a reload runs
	looking sync.Mutex    // held while the Inspector looks: each look locks for a moment what requests need
	server  *http.Server  // at the unix socket
	web     *http.Server  // over TCP
}

// New makes a Server of its parts; it opens nothing.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.ReloadTimeout <= 0 {
		o.ReloadTimeout = 20 * time.Second
	}
	a := &Server{opts: o, reloads: make(chan struct{}, 1)}
	if o.Access == nil {
		a.opts.Access = new(Access)
	}
	documents := a.Handler()
	write := o.ReloadTimeout + 10*time.Second
	a.server = newServer(newGuard(documents, a.opts.Access, true), write, o.Log)
	a.web = newServer(newGuard(documents, a.opts.Access, false), write, o.Log)
	return a
}

// Listen opens the admin API's unix socket; address is "unix:/path". It makes the directory if
// that is missing, and replaces a socket file that a dead process left behind, but never one on
// which a process answers, nor another kind of file. Closing the listener removes the file.
func Listen(address string) (net.Listener, error) {
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok || path == "" {
		return nil, fmt.Errorf("admin.listen: %q is not a unix socket; allowed is unix:/path", address)
	}
	l, err := host.ListenUnix(context.Background(), path)
	if err != nil {
		return nil, fmt.Errorf("admin.listen: %w", err)
	}
	return l, nil
}

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

// Serve answers on l, the unix socket, until Shutdown and closes l. It returns nil after
// Shutdown, else why it ended.
func (a *Server) Serve(l net.Listener) error { return serve(a.server, l) }

// ServeWeb answers on l, a listener of TCP, until Shutdown and closes l. Everything but the
// page itself needs the token. It returns nil after Shutdown, otherwise why it ended.
func (a *Server) ServeWeb(l net.Listener) error {
	return serve(a.web, netutil.LimitListener(l, mostConnections))
}

func serve(s *http.Server, l net.Listener) error {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown closes the listeners and waits for requests under way until ctx
// ends; then it cuts them.
func (a *Server) Shutdown(ctx context.Context) error {
	var all error
	for _, s := range []*http.Server{a.server, a.web} {
		if err := s.Shutdown(ctx); err != nil {
			all = errors.Join(all, err, s.Close())
		}
	}
	return all
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
