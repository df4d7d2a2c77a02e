package proxy

import (
	"context"
	"net/http"
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
	life   lifecycle.Life              // what is decided of it
	listed front.RosterEntry[exchange] // among what waits, or what is at the backend

	handler *Handler
	policy  *Policy
	request *http.Request
	arrived time.Time
	given   string // the id that a trusted proxy gave the request; empty: none did
	id      string // of the request: given, or told to a client that was not served
	counted quota.Counted
	pooled  bool // it serves another request afterwards

	client  clientSide
	wait    waiting
	backend backendSide
	kernel  kernelSide
	log     logged
}

// clientSide is what an exchange has to do with its client.
type clientSide struct {
	conn   *connection
	writer writer
	body   body
	room   int // what the request takes of the clients' memory for headers, in bytes
}

// waiting is how it waits for a place at the backend.
type waiting struct {
	since    time.Time
	broken   chan struct{} // closed when its body is seen to come to no end, while it waits; nil: it does not upload
	redirect bool          // it is sent back for a newcomer's pass
	unsent   bool          // its body was seen to come to no end, while it waited
}

// backendSide is what an exchange has to do with the backend.
type backendSide struct {
	since   time.Time // it was asked; zero: it was not
	asked   asked
	relay   relay
	work    work
	lingers bool      // see linger
	until   time.Time // it lingers
}

// kernelSide is what the kernel tells of the process that serves the request, and its priority.
type kernelSide struct {
	billed  billed
	lowered *lowered      // its steps down in priority; nil: none
	stepDue time.Time     // before this the next step cannot be due; zero: no reading has come yet
	stepAt  time.Duration // the CPU time at which it is due
	// Of a stream only what it used recently counts: since streamSince, when it had used streamFrom.
	streamSince time.Time
	streamFrom  time.Duration
}

// logged is what is on record of it.
type logged struct {
	outcome telemetry.Outcome
	held    time.Duration // for how long the client was kept from the end of its answer
	told    told
	record  telemetry.Record
}

// connection is what is remembered of a client's connection, or of a stream of HTTP/2. With
// HTTP/1 its requests come one after the other, so the memory of one serves the next.
type connection struct {
	deadline time.Time    // for writing, as last set
	closing  *closing     // of the server; nil: never
	call     backend.Call // to the backend; the client's leaving does not end it
}

type connectionKey struct{}

// served is the server's side of an exchange.
type served interface { //nolint:interfacebloat // of HTTP/1 and of HTTP/2, all that an exchange needs of it
	http.ResponseWriter
	SetReadDeadline(at time.Time) error
	SetWriteDeadline(at time.Time) error
	FlushError() error
	// Look checks whether the client is still connected; if not, the request's context ends.
	Look()
	// Keep keeps the request valid after its end.
	Keep()
	// Asked are the fields of the request's head.
	Asked() *http1.Fields
	// HeadSize is how many bytes the request's head takes, without what its lines take as such.
	HeadSize() int
	// Trailer is what came after the request's body.
	Trailer() http1.Fields
	// Fields are the answer's header.
	Fields() *http1.Fields
	// Relays marks the answer as another server's, with that reason.
	Relays(reason string)
	// SetTrailer sets what follows the answer's body.
	SetTrailer(trailer http1.Fields)
	// Streams is how many requests the connection has under way.
	Streams() int
}

// remembered is what connContext has requests find; nil: it was not called.
func remembered(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// isCrowded reports whether it is a stream of HTTP/2 next to so many others that it is counted.
func (x *exchange) isCrowded() bool {
	return x.client.writer.Streams() > fewStreams
}

// group is whom it counts among. Once it has arrived it may be called at any time.
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

// Policy is one configuration, made ready for the request path. It is never
// changed, only replaced: a request sees one Policy from its first byte to its
// last.
type Policy struct {
	lifecycle.Rules
	Limits   limiter.Policy
	Requests RequestLimits // nil: none
	Upstream *Upstream     // the backend
	Access   telemetry.Access
	Body     time.Duration // longest pause inside a request's body
	Write    time.Duration // longest time that a client takes to accept a piece of the response
	Upgrade  time.Duration // longest time without a byte in either direction after an upgrade
	Buffer   Buffer        // what bodies are kept in while they wait

	// Unavailable are classes whose refusals have status 503, like those of other gatekeepers.
	Unavailable map[string]bool

	Pages     *errorpage.Set // what browsers are shown where the proxy itself answers; nil: plain text
	RobotsTxt []byte         // the answer to /robots.txt; nil: the backend's

	Underscores bool // header names of more than letters, digits and hyphens reach the backend
}

// Buffer is where bodies wait, and how much of each, in bytes: in memory, and
// in all. A Request or a Response of 0, or no Store, means that nothing of it is
// kept: it streams.
type Buffer struct {
	Store                    *spool.Store
	RequestMemory, Request   int64
	ResponseMemory, Response int64
}

// holdsResponses reports whether the end of responses may have to be kept back.
func (p *Policy) holdsResponses() bool { return p.Limits.Mode == limiter.Cooperative }

// RequestLimits limits how many requests clients make, whatever these cost; quota.Rules
// do. It must be safe for concurrent use.
type RequestLimits interface {
	// Count counts a request that is not exempt, and tells how the limits stand that
	// apply to it. It may wait for a bounded time, and no longer than the context.
	Count(ctx context.Context, now time.Time, of quota.Request) quota.Counted
}

// Handler serves requests: it waits until each may go to the backend, forwards it, and charges its
// keys with what it cost there.
type Handler struct {
	policy  atomic.Pointer[Policy]
	limiter *limiter.Limiter
	gate    *lifecycle.Gatekeeper
	waiting front.Roster[exchange]
	crowd   int // how many waited when Drive looked last
	running front.Roster[exchange]
	records telemetry.Recorder
	nearby  *telemetry.Nearby
	learnt  learnt
	tails   sync.Pool // of *[tailSize]byte
	pieces  pieces
	// exchanges are to be used again.
	exchanges sync.Pool
	passes    atomic.Int64     // of Drive
	heads     *connlimit.Share // see mostHeads
	bill      bill

	marks      marks
	priorities priorities
	pressure   atomic.Uint64 // the bits of Pressure
}

// learnt is what the Handler knows of the backend by looking at it.
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

// asked is what is asked of the backend, and the memory for it.
type asked struct {
	request backend.Request
	fields  http1.Fields
}

// work is what the backend does for a request, as far as it is seen here. It ends
// when the backend has finished, which may be before the client has read the
// answer, or after the client has left.
type work struct {
	late atomic.Bool // it was given up because it took too long after its client disconnected

	mu     sync.Mutex   // guards the following
	answer *spool.Spool // nil: none
	stream bool         // the answer is one: its end may never come

	longest time.Duration // limit for the backend's work after the client disconnected; 0: none
}

// billed is what is known of the process that serves a request. But for ended, number and text
// it is for Roster.Each and Entry.Exclusively.
type billed struct {
	ended    atomic.Bool // nothing is read any more
	number   host.Number
	text     string // the number as it is written
	work     *host.Work
	accepted time.Time
	computes bool      // much of its time, as far as was seen
	again    time.Time // when it is looked for again who serves it; zero: at once
}

// lowered is a request's part in a process that has stepped down, or could not.
type lowered struct {
	host.Hold
	by     *stepping
	id     process.ID
	step   int
	gaveUp bool
}

// told is what was reported of a request while it ran. It is for Roster.Each, and for the
// goroutine that serves the request once that is over.
type told struct {
	cost   time.Duration
	wasted time.Duration // of that, after its client had left
}

// closing is how far a server has come with its end.
type closing struct {
	drains atomic.Bool // it waits only for clients that wait for an answer
	cuts   atomic.Bool // it waits for no client

	upgrades upgrades
}

// ends reports whether the server comes to its end.
func (c *closing) ends() bool { return c != nil && c.drains.Load() }

// givesUp reports whether the server does not wait for what the backend does for a
// client that has left (orphan), or has not.
func (c *closing) givesUp(orphan bool) bool {
	return c != nil && (c.cuts.Load() || orphan && c.drains.Load())
}

// upgrades are a server's connections that were upgraded. They may be open for days, so a server
// that ends does not wait for them: their clients reconnect, to the next process. The zero value
// has none. Its methods may be called concurrently.
type upgrades struct {
	mu    sync.Mutex // guards the following
	open  map[*func()]struct{}
	ended bool
	all   sync.WaitGroup // of open
}
