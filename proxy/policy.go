package proxy

import (
	"net/http"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/errorpage"
	"tempomat/proxy/lifecycle"
	"tempomat/proxy/spool"
	"tempomat/proxy/telemetry"
)

// Policy is one configuration, made ready for the request path. It is never
// changed, only replaced: a request sees one Policy from its first byte to its
// last.
type Policy struct {
	lifecycle.Rules
	Limits   limiter.Policy
	Requests RequestLimits // nil: none
	Upstream http.Handler  // forwards to the backend; made by NewUpstream
	Access   telemetry.Access
	Body     time.Duration // longest pause inside a request's body
	Write    time.Duration // longest time that a client takes to accept a piece of the response
	Upgrade  time.Duration // longest time without a byte in either direction after an upgrade
	Buffer   Buffer        // what bodies are kept in while they wait

	// Unavailable are classes whose refusals have status 503, as other gatekeepers have it.
	Unavailable map[string]bool

	Pages     *errorpage.Set // what browsers are shown where the proxy itself answers; nil: plain text
	RobotsTxt []byte         // the answer to /robots.txt; nil: the backend's

	Hops
}

// Buffer is where bodies wait, and how much of each, in bytes: in memory, and
// in all. A Request or a Response of 0, or no Store, means that nothing of it is
// kept: it streams.
type Buffer struct {
	Store                    *spool.Store
	RequestMemory, Request   int64
	ResponseMemory, Response int64
}

// holdsResponses tells whether the end of responses may have to be kept back.
func (p *Policy) holdsResponses() bool { return p.Limits.Mode == limiter.Cooperative }
