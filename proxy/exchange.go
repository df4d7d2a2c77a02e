package proxy

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"tempomat/cpuaccount/process"
	"tempomat/limiter"
	"tempomat/limiter/quota"
	"tempomat/proxy/backend"
	"tempomat/proxy/connlimit"
	"tempomat/proxy/errorpage"
	"tempomat/proxy/front"
	"tempomat/proxy/host"
	"tempomat/proxy/http1"
	"tempomat/proxy/lifecycle"
	"tempomat/proxy/spool"
	"tempomat/proxy/telemetry"
)

// exchange is one request and its answer.
type exchange struct {
	life   lifecycle.Life              // state of the request in the limiter, the estimator and the meter
	listed front.RosterEntry[exchange] // place in Handler.waiting or Handler.running

	handler *Handler
	policy  *Policy
	request *http.Request
	arrived time.Time
	given   string // id from a trusted proxy; empty: none
	id      string // id shown to the client: given, or made for a request that was refused
	counted quota.Counted
	pooled  bool // whether another request may reuse the exchange

	client  clientSide
	wait    waiting
	backend backendSide
	kernel  kernelSide
	log     logged
}

// clientSide is the part of an exchange that concerns the client.
type clientSide struct {
	conn   *connection
	writer writer
	body   body
	room   int // number of bytes of Handler.heads reserved for this request
}

// waiting is the part of an exchange that concerns its wait for a place at the backend.
type waiting struct {
	since    time.Time
	broken   chan struct{} // closed if the client stops before the end of its body while the request waits; nil: no body is read while it waits
	redirect bool          // whether the client is redirected to get a newcomer's pass
	unsent   bool          // whether the client stopped before the end of its body while the request waited
}

// backendSide is the part of an exchange that concerns the backend.
type backendSide struct {
	since   time.Time // when the request was sent to the backend; zero: it wasn't
	asked   asked
	relay   relay
	work    work
	settled atomic.Bool // whether settle was called
	lingers bool        // whether the request lingers; see linger
	until   time.Time   // when the request stops lingering
}

// kernelSide holds the kernel's data about the process that serves the request, and the priority of this
// process.
type kernelSide struct {
	billed  billed
	lowered *lowered  // process whose priority was lowered for this request; nil: none
	stepDue time.Time // earliest time for the next step; zero: the CPU time wasn't read yet
}

// logged is the part of an exchange that is recorded.
type logged struct {
	outcome telemetry.Outcome
	held    time.Duration // how long the end of the answer was held back
	told    told
	record  telemetry.Record
}

// connection is the state that a client's connection keeps between requests; each stream of HTTP/2 has its
// own. With HTTP/1, requests come one after the other, so they can share it.
type connection struct {
	local    netip.Addr   // address at which this machine accepted the connection; invalid: a loopback address or none
	deadline time.Time    // latest write deadline
	closing  *closing     // state of the server's shutdown; nil: it never shuts down
	call     backend.Call // call to the backend, which continues if the client disconnects
}

type connectionKey struct{}

// served is the response writer that the server gives an exchange, for HTTP/1 or HTTP/2.
type served interface { //nolint:interfacebloat // all methods that an exchange needs, for HTTP/1 and HTTP/2
	http.ResponseWriter
	SetReadDeadline(at time.Time) error
	SetWriteDeadline(at time.Time) error
	FlushError() error
	// Look checks whether the client is still connected; if not, the request's context ends.
	Look()
	// Keep keeps the request valid after ServeHTTP has returned.
	Keep()
	// Asked returns the fields of the request's header.
	Asked() *http1.Fields
	// HeadSize returns the size of the request's header in memory, in bytes.
	HeadSize() int
	// Trailer returns the fields that came after the request's body.
	Trailer() http1.Fields
	// Fields returns the answer's header.
	Fields() *http1.Fields
	// Relays notes that the answer comes from another server, with this reason phrase.
	Relays(reason string)
	// SetTrailer sets the fields that follow the answer's body.
	SetTrailer(trailer http1.Fields)
}

// remembered returns the connection that connContext has put into the context; nil: there is none.
func remembered(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// group returns the group in which the request is counted. It may be called at any time after the arrival.
func (x *exchange) group() telemetry.Group {
	switch {
	case x.life.Who.Exempt:
		return telemetry.Exempt
	case x.life.Who.Robot:
		return telemetry.Robot
	case x.life.Known() || x.life.Who.Evidence.Proves():
		return telemetry.Known
	case x.life.Passed():
		return telemetry.Newcomer
	}
	return telemetry.Stranger
}

// Policy is one configuration, prepared for the request path. It is never changed, only replaced, so a
// request has the same Policy from its first byte to its last.
type Policy struct {
	lifecycle.Rules
	Limits   limiter.Policy
	Requests RequestLimits // limits on numbers of requests; nil: none
	Upstream *Upstream     // forwards requests to the backend
	Access   telemetry.Access
	Body     time.Duration // longest pause inside a request's body
	Write    time.Duration // longest time that a client may take to accept a piece of the response
	Upgrade  time.Duration // longest time without a byte in either direction after an upgrade
	Buffer   Buffer        // limits for bodies that wait in spools

	// Unavailable lists the classes whose clients are rejected with status 503, as other Smockron gatekeepers do.
	Unavailable map[string]bool

	Pages *errorpage.Set // pages that the proxy itself answers with

	Underscores bool // the backend also gets fields whose names contain characters other than A-Z, 0-9 and -
}

// Buffer sets where bodies wait, how many bytes of each body may wait in memory, and how many in memory and on
// disk together. If Request or Response is 0, or there is no Store, bodies of that kind stream.
type Buffer struct {
	Store                    *spool.Store
	RequestMemory, Request   int64
	ResponseMemory, Response int64
}

// holdsResponses reports whether the mode delays the ends of responses.
func (p *Policy) holdsResponses() bool { return p.Limits.Mode == limiter.Cooperative }

// RequestLimits limits how many requests a client may make, regardless of their cost. quota.Rules implements
// it. It must be safe for concurrent use.
type RequestLimits interface {
	// Count counts a request that is not exempt, and returns the state of the limits that apply to it. It may
	// wait for a limited time, but not longer than the context.
	Count(ctx context.Context, now time.Time, of quota.Request) quota.Counted
}

// Handler serves requests. It waits until a request may go to the backend, forwards it, and charges the
// request's keys with its cost.
type Handler struct {
	policy  atomic.Pointer[Policy]
	limiter *limiter.Limiter
	gate    *lifecycle.Shared
	waiting front.Roster[exchange]
	waited  int // number of waiting requests when Drive last looked
	running front.Roster[exchange]
	records telemetry.Recorder
	learnt  learnt
	pieces  pieces
	// exchanges holds exchanges of earlier requests, for reuse.
	exchanges sync.Pool
	passes    atomic.Int64     // number that Passes returns
	heads     *connlimit.Share // memory for large headers and unread answers; see mostHeads
	bill      bill

	marks      marks
	priorities priorities
	pressure   atomic.Uint64 // bits of the float64 that Pressure returns
}

// learnt is what the Handler has found out about the backend.
type learnt struct {
	workers int
	tell    func(workers int, by string)
}

// Upstream forwards requests to a backend.
type Upstream struct {
	timeout time.Duration
	pool    *backend.Pool
	log     *zap.Logger
}

// asked is the request to the backend, and the memory for its fields.
type asked struct {
	request backend.Request
	fields  http1.Fields
}

// work is the state of the backend's work on a request. The work ends when the backend has finished, possibly
// before the client has read the answer, or after the client has disconnected.
type work struct {
	late atomic.Bool // whether the backend took too long after the client had disconnected

	mu     sync.Mutex           // guards the fields below
	answer interface{ Close() } // spool of the answer; nil: none
	stream bool                 // whether the answer is an event stream or an upgraded connection, which may never end
}

// billed is the known data about the process that serves a request. Except for number and text, it may be used
// only within Roster.Each and Entry.Exclusively.
type billed struct {
	number   host.Number
	text     string // number as text
	work     *host.Work
	accepted time.Time
	computes bool      // whether the process computed for much of the time between the last two readings
	again    time.Time // when Bill looks for the process again; zero: at once
}

// lowered is the process whose priority was lowered for a request, or could not be lowered.
type lowered struct {
	host.Hold
	by     *stepping
	id     process.ID
	step   int
	gaveUp bool
}

// told is the part of a request's cost that SoFar reported while the request ran. It may be used within
// Roster.Each, and afterwards by the goroutine that served the request.
type told struct {
	cost   time.Duration
	wasted time.Duration // part of cost that was used after the client had disconnected
}

// closing is the state of a server's shutdown.
type closing struct {
	drains atomic.Bool // whether the server is shutting down and waits only for answers in progress

	upgrades upgrades
}

// ends reports whether the server is shutting down.
func (c *closing) ends() bool { return c != nil && c.drains.Load() }

// upgrades are a server's upgraded connections. They may be open for days, so a server that shuts down closes
// them instead of waiting, and their clients reconnect to the next process. The zero value is empty. The
// methods may be called concurrently.
type upgrades struct {
	mu    sync.Mutex // guards the fields below
	open  map[*func()]struct{}
	ended bool
	all   sync.WaitGroup // counts the members of open
}
