// Package admin serves the admin API, which the doctor and the dashboard ask: JSON over HTTP,
// at a unix socket and over TCP. What it answers is in package api, the page in dashboard.
//
// A request passes the guard, and comes to a route.
//
//	admin.go    the parts, and the servers
//	listen.go   the unix socket
//	web.go      the listener for browsers
//	peer*.go    who asks at the socket
//	guard.go    who may ask, and what is refused
//	access.go   the token, and the names that it may be asked for by
//	routes.go   the paths, and what may be asked of each
//	reply.go    documents and errors
//	views.go    classes and keys, the proxy itself
//	inside.go   what requests add up to
//	events.go   the same each second
//	history.go  the last week
//	single.go   single clients: explained, forgiven, pinned
package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"tempomat/limiter"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/admin/dashboard"
	"tempomat/proxy/connlimit"
	"tempomat/proxy/spool"
	"tempomat/proxy/telemetry"
)

// Status is what only the whole proxy knows of itself.
type Status struct {
	Release     string            // the program's version
	Started     time.Time         // when the process began to serve
	Mode        string            // fair, observe, cap, cooperative
	Held        int               // requests held at this moment
	Buffer      spool.Stats       // bodies that wait
	Connections connlimit.Stats   // of clients
	Counters    map[string]uint64 // totals since the start, by name

	Certificates []api.Certificate // of TLS
}

// Options are the parts that the admin API shows or sets going. All
// functions must be safe for concurrent use.
type Options struct {
	Ledger        telemetry.Ledger
	Now           func() time.Time
	Status        func() Status
	Gate          func() limiter.GateState
	Kernel        func() api.Kernel // nil: nothing is told of the kernel's help
	Share         func() api.ShareReply
	Inspector     Inspector              // nil: nothing is told of single requests
	Actor         Actor                  // nil: nothing is done for single clients
	Conditions    func() []api.Condition // what is wrong now, the worst first; nil: nobody looks
	Ready         func() error           // nil while the proxy takes requests
	Reload        func() error           // reads the configuration again; its error lists every fault
	Waiting       func() []string        // keys that a reload could not put in force, and a restart does; nil: there are none
	ReloadTimeout time.Duration          // longest that a client waits for Reload; 0: 20 s
	Inside        Inside
	History       func(hours int) api.HistoryReply // nil: none is kept
	Access        *Access                          // who may ask over TCP; nil: nobody
	Log           *zap.Logger                      // nil: nothing is logged
}

// Server serves the admin API. Its methods may be called concurrently.
type Server struct {
	opts      Options
	reloading chan struct{} // holds a token while a reload runs
	ending    chan struct{} // closed when those who listen have to leave
	server    *http.Server  // at the unix socket
	web       *http.Server  // over TCP
}

// New makes a Server of its parts; it opens nothing.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.ReloadTimeout <= 0 {
		o.ReloadTimeout = 20 * time.Second
	}
	a := &Server{opts: o, reloading: make(chan struct{}, 1), ending: make(chan struct{})}
	if o.Inspector != nil {
		a.opts.Inspector = &singly{inspector: o.Inspector}
	}
	if o.Access == nil {
		a.opts.Access = new(Access)
	}
	page, err := dashboard.New()
	if err != nil {
		panic(err) // the embedded files are none that it serves: its tests would have failed
	}
	documents := a.Handler()
	write := o.ReloadTimeout + 10*time.Second
	a.server = newServer(&guard{next: documents, page: page, access: a.opts.Access, socket: true}, write, o.Log)
	a.web = newServer(&guard{next: documents, page: page, access: a.opts.Access}, write, o.Log)
	end := sync.OnceFunc(func() { close(a.ending) })
	a.server.RegisterOnShutdown(end)
	a.web.RegisterOnShutdown(end)
	return a
}

// Serve answers on l, the unix socket, until Shutdown and closes l. It returns nil after
// Shutdown, else why it ended.
func (a *Server) Serve(l net.Listener) error { return serve(a.server, l) }

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
