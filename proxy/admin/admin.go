// Package admin serves the admin API, which the doctor and the dashboard ask: JSON over HTTP,
// at a unix socket and over TCP. What it answers is in package api, the page in dashboard.
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
}

// Options are the parts that the admin API shows or sets going. All
// functions must be safe for concurrent use.
type Options struct {
	Ledger        telemetry.Ledger
	Now           func() time.Time
	Status        func() Status
	Gate          func() limiter.GateState
	Share         func() api.ShareReply
	Inspector     Inspector     // nil: nothing is told of single requests
	Actor         Actor         // nil: nothing is done for single clients
	Ready         func() error  // nil while the proxy takes requests
	Reload        func() error  // reads the configuration again; its error lists every fault
	ReloadTimeout time.Duration // longest that a client waits for Reload; 0: 20 s
	Inside        Inside
	History       func(hours int) api.HistoryReply // nil: none is kept
	Access        *Access                          // who may ask over TCP; nil: nobody
	Replace       http.Handler                     // hands over to a process that takes this one's place; nil: none can
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
	if o.Access == nil {
		a.opts.Access = new(Access)
	}
	page, err := dashboard.New()
	if err != nil {
		panic(err) // the embedded files are none that it serves: its tests would have failed
	}
	documents := &shared{next: a.Handler(), now: time.Now}
	write := o.ReloadTimeout + 10*time.Second
	a.server = newServer(&guard{next: documents, page: page, access: a.opts.Access, socket: true, now: time.Now}, write, o.Log)
	a.web = newServer(&guard{next: documents, page: page, access: a.opts.Access, now: time.Now}, write, o.Log)
	end := sync.OnceFunc(func() { close(a.ending) })
	a.server.RegisterOnShutdown(end)
	a.web.RegisterOnShutdown(end)
	return a
}

// Handler returns the API without a server around it, and without the page.
func (a *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/classes", reading(a.classes))
	mux.HandleFunc("/v1/buckets", reading(a.buckets, "class", "sort", "limit"))
	mux.HandleFunc("/v1/key", reading(a.key, "class", "id"))
	mux.HandleFunc("/v1/gate", reading(a.gate))
	mux.HandleFunc("/v1/share", reading(a.share))
	mux.HandleFunc("/v1/health", reading(a.health))
	mux.HandleFunc("/v1/ready", reading(a.ready))
	mux.HandleFunc("/v1/status", reading(a.status))
	if a.opts.Inside.Overview != nil {
		mux.HandleFunc("/v1/overview", reading(a.overview))
		mux.HandleFunc("/v1/shapes", reading(a.shapes, "limit"))
		mux.HandleFunc("/v1/recent", reading(a.recent, "limit"))
		mux.HandleFunc("/v1/series", reading(a.series, "minutes"))
		mux.HandleFunc("/v1/events", reading(a.events))
	}
	mux.HandleFunc("/v1/history", reading(a.history, "hours"))
	mux.HandleFunc("/v1/reload", acting(a.reload))
	if a.opts.Inspector != nil {
		mux.HandleFunc("/v1/queue", reading(a.queue, "limit"))
		mux.HandleFunc("/v1/explain", reading(a.explain, "of"))
	}
	if a.opts.Actor != nil {
		mux.HandleFunc("/v1/pins", reading(a.pins))
		mux.HandleFunc("/v1/forgive", acting(a.act(a.opts.Actor.Forgive)))
		mux.HandleFunc("/v1/pin", acting(a.act(a.opts.Actor.Pin)))
	}
	if a.opts.Replace != nil {
		mux.HandleFunc("/v1/replace", acting(a.opts.Replace.ServeHTTP))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, "no such path; known: /v1/classes, /v1/buckets, /v1/key, /v1/gate, /v1/share, "+
			"/v1/health, /v1/ready, /v1/status, /v1/overview, /v1/shapes, /v1/recent, /v1/series, /v1/events, /v1/history, /v1/queue, /v1/explain, /v1/pins, /v1/forgive, /v1/pin, /v1/reload")
	})
	return mux
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
