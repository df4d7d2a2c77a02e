package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tempomat/classify"
	"tempomat/cpuaccount"
	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/errorpage"
	"tempomat/proxy/lifecycle"
	"tempomat/proxy/spool"
	"tempomat/proxy/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setup is the part of a rig that a test may change.
type setup struct {
	classify    classify.Config
	limits      limiter.Policy
	source      cpuaccount.Source
	cpus        float64
	backend     Backend // without a URL: the rig's own backend
	server      ServerOptions
	entrance    Entrance // without its listener
	body        time.Duration
	write       time.Duration
	upgrade     time.Duration
	underscores bool
	buffer      Buffer // without a Store: the rig's own
	access      telemetry.Access
}

func defaults() setup {
	s := setup{
		cpus:    1,
		backend: Backend{DialTimeout: time.Minute, Timeout: time.Minute},
		server:  ServerOptions{Header: time.Minute, Idle: time.Minute},
		body:    time.Minute, write: time.Minute, upgrade: time.Hour,
		buffer: Buffer{RequestMemory: 64 << 10, Request: 1 << 30, ResponseMemory: 64 << 10, Response: 1 << 30},
		access: telemetry.AccessAll,
	}
	s.classify.Classes = []classify.Class{{Name: "slash32", By: classify.Slash32}}
	s.limits = limiter.Policy{
		Classes: []limiter.ClassInfo{{Name: "slash32", Budget: limiter.Budget{CPUs: 1}}},
		MaxHold: 30 * time.Second, MaxHeld: 100,
	}
	return s
}

// unbuffered lets all bodies stream.
func unbuffered(s *setup) { s.buffer = Buffer{} }

// mode sets the limiter's mode.
func mode(m limiter.Mode) func(*setup) { return func(s *setup) { s.limits.Mode = m } }

// exempt exempts a path.
func exempt(path string) func(*setup) {
	return func(s *setup) { s.classify.Exempt = []classify.Exemption{{Path: path}} }
}

// rig is a proxy in front of a backend, with everything that runs next to it.
type rig struct {
	t           *testing.T
	front, back wire
	handler     *Handler
	server      *Server
	meter       *cpuaccount.Meter
	limiter     *limiter.Limiter
	store       *spool.Store // nil: bodies stream
	client      *http.Client // HTTP/1.1
	h2c         *http.Client
	errors      *observer.ObservedLogs // errors that the proxy logged
	access      *observer.ObservedLogs
	busy        sync.WaitGroup // requests being served
	stop        func()
}

// inBubble runs a subtest in a bubble of testing/synctest.
func inBubble(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// start starts a proxy in front of a backend on the loopback.
func start(t *testing.T, backend http.Handler, changes ...func(*setup)) *rig {
	t.Helper()
	return startOn(t, loopback(t), loopback(t), backend, changes...)
}

// startVirtual starts such a proxy in memory, within a synctest bubble.
func startVirtual(t *testing.T, backend http.Handler, changes ...func(*setup)) *rig {
	t.Helper()
	return startOn(t, memory(), memory(), backend, changes...)
}

// startOn starts a proxy on front. Without a backend, the test serves back.
func startOn(t *testing.T, front, back wire, backend http.Handler, changes ...func(*setup)) *rig {
	t.Helper()
	s := defaults()
	for _, change := range changes {
		change(&s)
	}
	r := &rig{t: t, front: front, back: back}
	core, logged := observer.New(zap.DebugLevel)
	r.errors = logged
	log := zap.New(core)
	core, r.access = observer.New(zap.DebugLevel)
	s.server.Log = log
	if s.backend.URL == nil {
		s.backend.URL = &url.URL{Scheme: "http", Host: "backend.invalid"}
	}
	upstream := NewUpstream(s.backend, log)
	if s.backend.URL.Host == "backend.invalid" {
		upstream.pool = back.pool(s.backend.Timeout)
	}
	if s.buffer.Store == nil && s.buffer != (Buffer{}) {
		s.buffer.Store = spool.NewStore(spool.Limits{Directory: t.TempDir(), Memory: 64 << 20, Address: 1})
	}
	r.store = s.buffer.Store
	classifier := classify.New(s.classify)
	r.meter = cpuaccount.NewMeter(s.source, s.cpus)
	r.limiter = limiter.New(time.Now(), s.limits, 1000, nil)
	r.handler = NewHandler(r.limiter, &Policy{
		Rules:  lifecycle.Rules{Classifier: classifier, Meter: r.meter},
		Limits: s.limits, Upstream: upstream,
		Access: s.access, Body: s.body, Write: s.write, Upgrade: s.upgrade, Buffer: s.buffer,
		Underscores: s.underscores, Pages: shippedPages(t),
	}, telemetry.NewAccessLog(zap.New(core), telemetry.NewWords()))
	r.server = NewServer(counted(&r.busy, r.handler), completed(s.server))

	work, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { r.handler.Drive(work) })
	all.Go(func() {
		s.entrance.Listener = front
		if err := r.server.Serve([]Entrance{s.entrance}); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	var working sync.WaitGroup
	origin := &http.Server{Handler: counted(&working, backend)}
	if backend != nil {
		all.Go(func() { _ = origin.Serve(back) })
	}
	r.client, r.h2c = newClient(front, false), newClient(front, true)
	r.stop = sync.OnceFunc(func() {
		r.client.CloseIdleConnections()
		r.h2c.CloseIdleConnections()
		if err := r.server.Drain(context.Background()); err != nil {
			t.Errorf("Drain: %v", err)
		}
		_ = origin.Close()
		r.busy.Wait()
		working.Wait()
		upstream.Close()
		stop()
		all.Wait()
		r.checkIdle()
	})
	t.Cleanup(r.stop)
	return r
}

// shippedPages returns the pages that come with tempomat, without an administrator's templates.
func shippedPages(t *testing.T) *errorpage.Set {
	t.Helper()
	pages, err := errorpage.Load("")
	testkit.Must(t, err)
	return pages
}

// change changes the current policy.
func (r *rig) change(f func(*Policy)) {
	p := *r.handler.Policy()
	f(&p)
	r.handler.SetPolicy(&p)
}

// counted counts the requests that a handler is serving.
func counted(n *sync.WaitGroup, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		n.Add(1)
		defer n.Done()
		h.ServeHTTP(w, q)
	})
}

// checkIdle checks that nothing is left of earlier requests.
func (r *rig) checkIdle() {
	r.t.Helper()
	testkit.Same(r.t, 0, r.limiter.Held(), "requests held after the last one")
	if r.store != nil {
		if s := r.store.Stats(); s.Memory != 0 || s.Disk != 0 || s.Files != 0 || s.Spools != 0 {
			r.t.Errorf("bytes are kept after the last request: %+v", s)
		}
	}
	testkit.Same(r.t, 0, r.handler.heads.Held(), "bytes of headers counted after the last request")
	testkit.Same(r.t, 0, r.meter.Running(), "meters that run after the last request")
	r.handler.running.Each(func(x *exchange) { r.t.Errorf("%s is still among the running", x.request.URL) })
	r.limiter.Dump(time.Now(), "", func(row limiter.Row) bool {
		if row.Running != 0 || row.Waiting != 0 {
			r.t.Errorf("%s: %d running, %d waiting after the last request", row.ID, row.Running, row.Waiting)
		}
		return true
	})
}

// row returns the limiter's row of the only client.
func (r *rig) row() limiter.Row {
	r.t.Helper()
	var rows []limiter.Row
	r.limiter.Dump(time.Now(), "slash32", func(row limiter.Row) bool { rows = append(rows, row); return true })
	if len(rows) != 1 {
		r.t.Fatalf("the limiter knows %d clients, want 1", len(rows))
	}
	return rows[0]
}

// lines waits for all requests to end and returns the access log's lines.
func (r *rig) lines() []map[string]any {
	r.stop()
	var lines []map[string]any
	for _, e := range r.access.All() {
		lines = append(lines, e.ContextMap())
	}
	return lines
}

// checkLog waits for all requests to end and checks fields of each line of the access log.
func (r *rig) checkLog(want map[string]any) {
	r.t.Helper()
	lines := r.lines()
	if len(lines) == 0 {
		r.t.Error("the access log is empty")
	}
	for _, line := range lines {
		for name, value := range want {
			if line[name] != value {
				r.t.Errorf("%s is %v, want %v: %v", name, line[name], value, line)
			}
		}
	}
}

// line returns the access log's only line.
func (r *rig) line() map[string]any {
	r.t.Helper()
	lines := r.lines()
	if len(lines) != 1 {
		r.t.Fatalf("%d access log lines, want 1: %v", len(lines), lines)
	}
	return lines[0]
}

// dial connects to the proxy.
func (r *rig) dial() net.Conn {
	r.t.Helper()
	return r.front.connect(r.t)
}

// do sends a request and returns the response after reading its body.
func (r *rig) do(c *http.Client, q *http.Request) (*http.Response, string) {
	r.t.Helper()
	res, err := c.Do(q)
	testkit.Must(r.t, err)
	return res, readAll(r.t, res)
}

func readAll(t *testing.T, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	testkit.Must(t, err)
	return string(b)
}

// request makes a request from lines, the first of which is "METHOD /target".
func request(t *testing.T, body io.Reader, line string, header ...string) *http.Request {
	t.Helper()
	method, target, _ := strings.Cut(line, " ")
	q, err := http.NewRequestWithContext(t.Context(), method, "http://site.example"+target, body)
	testkit.Must(t, err)
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		q.Header.Add(name, value)
	}
	return q
}

func newClient(w wire, h2 bool) *http.Client {
	tr := &http.Transport{DialContext: w.dial, DisableCompression: true, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!h2)
	tr.Protocols.SetUnencryptedHTTP2(h2)
	return &http.Client{
		Transport:     tr,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// by returns the client for a protocol.
func (r *rig) by(h2 bool) *http.Client {
	if h2 {
		return r.h2c
	}
	return r.client
}

// each runs a test with a client for each protocol.
func (r *rig) each(t *testing.T, f func(t *testing.T, c *http.Client)) {
	t.Run("HTTP/1.1", func(t *testing.T) { f(t, r.client) })
	t.Run("h2c", func(t *testing.T) { f(t, r.h2c) })
}

// answer reads a final response from a raw connection.
func answer(t *testing.T, br *bufio.Reader, method string) *http.Response {
	t.Helper()
	for {
		res, err := http.ReadResponse(br, &http.Request{Method: method})
		testkit.Must(t, err)
		if res.StatusCode != http.StatusContinue {
			return res
		}
	}
}

// send writes to a raw connection.
func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	testkit.Must(t, err)
}

// say sends a text to the proxy over a new connection, and returns the response after reading its body.
func (r *rig) say(text string) (*http.Response, string) {
	r.t.Helper()
	return r.front.say(r.t, text)
}
