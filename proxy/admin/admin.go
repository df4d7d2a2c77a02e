// Package admin serves the admin API for the doctor and the dashboard: JSON over HTTP, on a unix socket and
// over TCP. Package api defines its documents.
//
// A request passes the guard and then its route.
//
//	admin.go   the parts, the listeners and the servers
//	guard.go   access: the token, the host names, pages of other sites, and which user asks
//	routes.go  the paths with their parameters, documents and errors
//	views.go   the documents of the paths
//	page.go    the dashboard
package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"

	"tempomat/limiter"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
)

// Inspector examines single clients, pages and requests. Its errors say what is wrong with the question. Its
// methods must be safe for concurrent use.
type Inspector interface { //nolint:interfacebloat // all methods belong together, and there is one implementation
	// Queue returns the waiting requests, at most limit of them.
	Queue(now time.Time, limit int) api.QueueReply
	// Explain returns everything that is known about a client, a page or a request.
	Explain(now time.Time, of string) (api.ExplainReply, error)
	// Forgive cancels the debt of a key, Pin sets its standing, and Pins lists pins. by names the user who asks,
	// for the log. An error says what is wrong with the request.
	Forgive(now time.Time, by string, a api.ActRequest) (api.ActReply, error)
	Pin(now time.Time, by string, a api.ActRequest) (api.ActReply, error)
	Pins(now time.Time) api.PinsReply
}

// Inside gives access to the sums over requests. All functions must be safe for concurrent use.
type Inside struct {
	Overview func() api.OverviewReply
	Shapes   func(limit int) api.ShapesReply
	Recent   func(limit int) api.RecentReply
}

// Options are the parts of the proxy that the admin API shows or controls. All functions must be safe for
// concurrent use.
type Options struct {
	Ledger    telemetry.Ledger
	Now       func() time.Time
	Status    func() api.StatusReply // the status without Goroutines and Conditions
	Gate      func() limiter.GateState
	Proof     func(k limiter.Key) string // value for the field of limiter.Row
	Kernel    func() api.Kernel          // what the kernel measures
	Share     func() api.ShareReply
	Inspector Inspector
	Ready     func() error    // returns nil while the proxy accepts requests
	Reload    func() error    // reads the configuration again; its error lists every fault
	Waiting   func() []string // keys whose change needs a restart
	Inside    Inside
	History   func(hours int) api.HistoryReply // the last hours; nil: no history is kept
	Access    *Access                          // access over TCP
	Log       *zap.Logger
}

// Server serves the admin API. Its methods may be called concurrently.
type Server struct {
	opts    Options
	reloads chan struct{} // holds a token while a reload runs
	looking sync.Mutex    // held while the Inspector works, because its calls briefly hold locks that requests need and must not run at the same time
	server  *http.Server  // serves the unix socket
	web     *http.Server  // serves TCP
}

// New makes a Server. It opens no listeners.
func New(o Options) *Server {
	a := &Server{opts: o, reloads: make(chan struct{}, 1)}
	documents := a.Handler()
	const write = reloadTimeout + 10*time.Second
	a.server = newServer(newGuard(documents, o.Access, true), write, o.Log)
	a.web = newServer(newGuard(documents, o.Access, false), write, o.Log)
	return a
}

// NewDashboard returns a TCP server for the dashboard and the documents that it shows. Everything except the
// page itself needs the token.
func NewDashboard(documents http.Handler, token string) *http.Server {
	access := new(Access)
	access.Set(token, nil)
	return newServer(newGuard(documents, access, false), time.Minute, zap.NewNop())
}

// mostConnections is how many connections may be open over TCP. A browser opens two. Further connections wait
// until another one closes. The server closes a connection without a request after 5 s, and an idle connection
// after a minute.
const mostConnections = 128

// Serve answers on the unix socket l until Shutdown, and closes l. It returns nil after Shutdown, otherwise
// the error that ended it.
func (a *Server) Serve(l net.Listener) error { return serve(a.server, l) }

// ServeWeb answers on the TCP listener l until Shutdown, and closes l. Everything except the page itself
// needs the token. It returns nil after Shutdown, otherwise the error that ended it.
func (a *Server) ServeWeb(l net.Listener) error {
	return serve(a.web, netutil.LimitListener(l, mostConnections))
}

func serve(s *http.Server, l net.Listener) error {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown closes the listeners and waits for requests in progress. When ctx ends, it closes their
// connections.
func (a *Server) Shutdown(ctx context.Context) error {
	var all error
	for _, s := range []*http.Server{a.server, a.web} {
		if err := s.Shutdown(ctx); err != nil {
			all = errors.Join(all, err, s.Close())
		}
	}
	return all
}

// newServer makes a server with timeouts that suit handlers that answer quickly.
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
