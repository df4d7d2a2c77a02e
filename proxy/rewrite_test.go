package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"tempomat/classify"
	"tempomat/cpuaccount"
	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/backend"
	"tempomat/proxy/connlimit"
	"tempomat/proxy/front"
	"tempomat/proxy/telemetry"
)

// TestMaxForwards: TRACE and OPTIONS end at the proxy that Max-Forwards selects, and the next one gets a
// number that is lower by one. Other methods ignore the field.
func TestMaxForwards(t *testing.T) {
	r := start(t, echoHeader)
	r.each(t, func(t *testing.T, c *http.Client) {
		for _, tc := range []struct {
			method, told string
			status       int
			want         string // number that the backend gets
		}{
			{"OPTIONS", "0", 204, ""}, {"TRACE", "0", 405, ""},
			{"OPTIONS", "3", 200, "2"}, {"TRACE", "1", 200, "0"}, {"GET", "0", 200, "0"}, {"POST", "7", 200, "7"}, {"OPTIONS", "x", 200, "x"},
		} {
			res, body := r.do(c, request(t, nil, tc.method+" /", "Max-Forwards: "+tc.told))
			testkit.Same(t, tc.status, res.StatusCode, "%s, %s", tc.method, tc.told)
			if res.StatusCode != 200 {
				continue
			}
			testkit.Same(t, tc.want, decodeHeader(t, body).Get("Max-Forwards"), "%s, %s: the backend is told", tc.method, tc.told)
		}
	})
}

// TestCircle: a proxy whose backend is itself reports the loop at once, in the answer and in the log, even if
// every place is taken.
func TestCircle(t *testing.T) {
	front := loopback(t)
	r := startOn(t, front, loopback(t), nil, fairly, func(s *setup) {
		s.backend.URL = &url.URL{Scheme: "http", Host: front.Addr().String()}
		s.limits.Gate.Workers = 1
	})
	r.each(t, func(t *testing.T, c *http.Client) {
		res, body := r.do(c, request(t, nil, "GET /"))
		checkProblem(t, res, body, http.StatusLoopDetected, false)
	})
	if logged := r.errors.FilterMessageSnippet("came back").All(); len(logged) != 2 || logged[0].ContextMap()["host"] != "site.example" {
		t.Errorf("logged %v", logged)
	}
}

// TestASiteMayAskAnother: a backend that is itself a proxy may request parts of one site from another site of
// the machine through this proxy. A loop in which the path grows still ends.
func TestASiteMayAskAnother(t *testing.T) {
	var r *rig
	r = start(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asks := map[string]string{"/blog": "blog.example /", "/old": q.Host + " /new"}[q.URL.Path]
		if strings.HasPrefix(q.URL.Path, "/more") {
			asks = q.Host + " " + q.URL.Path + "/more"
		}
		host, path, passes := strings.Cut(asks, " ")
		if !passes {
			_, _ = io.WriteString(w, q.Host+q.URL.Path)
			return
		}
		inner := request(t, nil, "GET "+path)
		inner.Header, inner.Host = q.Header.Clone(), host
		res, body := r.do(r.client, inner)
		w.WriteHeader(res.StatusCode)
		_, _ = io.WriteString(w, body)
	}))
	for path, want := range map[string]string{"/blog": "blog.example/", "/old": "site.example/new", "/": "site.example/"} {
		if res, body := r.do(r.client, request(t, nil, "GET "+path)); res.StatusCode != http.StatusOK || body != want {
			t.Errorf("%s: %d %q", path, res.StatusCode, body)
		}
	}
	if res, _ := r.do(r.client, request(t, nil, "GET /more")); res.StatusCode != http.StatusLoopDetected {
		t.Errorf("a circle in which the path grows: %d", res.StatusCode)
	}
}

// TestForwarded sends headers that say where a request came from, once as a client and once as a trusted proxy.
func TestForwarded(t *testing.T) {
	spoofed := []string{
		"X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 203.0.113.10, 10.0.0.1",
		"X-Forwarded-Host: other.example", "X-Forwarded-Proto: https", "Forwarded: for=203.0.113.9;proto=https",
		"X-Real-IP: 203.0.113.9", "X-Original-URL: /admin", "X-Forwarded-Port: 443", "CF-Visitor: {\"scheme\":\"https\"}",
		"Forwarded-For: 203.0.113.9", "Forwarded-For-IP: 203.0.113.9", "DO-Connecting-IP: 203.0.113.9", "Fly-Client-IP: 203.0.113.9",
		"CloudFront-Viewer-Address: 203.0.113.9:1", "X_Real_IP: 203.0.113.9", "X_Forwarded_For: 203.0.113.9", "Proxy: http://203.0.113.9",
	}
	own := http.Header{
		"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Host": {"site.example"}, "X-Forwarded-Proto": {"http"},
	}
	for _, tc := range []struct {
		name    string
		trusted bool
		send    []string
		want    http.Header
		client  string
	}{
		{"a client's own are gone", false, spoofed, own, "127.0.0.1"},
		{"a trusted proxy's stay", true, spoofed, http.Header{
			"X-Forwarded-For":  {"203.0.113.9, 203.0.113.10, 10.0.0.1, 127.0.0.1"},
			"X-Forwarded-Host": {"other.example"}, "X-Forwarded-Proto": {"https"},
			"Forwarded": {"for=203.0.113.9;proto=https"}, "X-Real-Ip": {"203.0.113.9"}, "X-Original-Url": {"/admin"},
			"X-Forwarded-Port": {"443"}, "Cf-Visitor": {"{\"scheme\":\"https\"}"},
			"Forwarded-For": {"203.0.113.9"}, "Forwarded-For-Ip": {"203.0.113.9"}, "Do-Connecting-Ip": {"203.0.113.9"},
			"Fly-Client-Ip": {"203.0.113.9"}, "Cloudfront-Viewer-Address": {"203.0.113.9:1"},
		}, "10.0.0.1"},
		{"a trusted proxy without any", true, nil, own, "127.0.0.1"},
		{"a trusted proxy's list of what it trusts", true, []string{"X-Forwarded-For: 203.0.113.9, 127.0.0.2"}, http.Header{
			"X-Forwarded-For":  {"203.0.113.9, 127.0.0.2, 127.0.0.1"},
			"X-Forwarded-Host": {"site.example"}, "X-Forwarded-Proto": {"http"},
		}, "203.0.113.9"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, echoHeader, func(s *setup) {
				if tc.trusted {
					s.classify.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
				}
			})
			r.checkHeard(tc.want, tc.send...)
			r.checkLog(map[string]any{"client": tc.client})
		})
	}
}

// TestUnderscores: if the configuration allows it, field names with characters other than letters, digits and
// hyphens pass, except those that a script would mistake for a proxy's field.
func TestUnderscores(t *testing.T) {
	never := []string{
		"Content_Length: 1", "Transfer!Encoding: chunked", "Tempomat.Request: 1", "Tempomat_Cost: 1", "Cf^Connecting|IP: 203.0.113.9",
	}
	for _, c := range "!#$%&'*+.^_`|~" {
		for _, name := range []string{"X-Forwarded-For", "X-Real-IP", "X-Forwarded-Proto"} {
			never = append(never, strings.ReplaceAll(name, "-", string(c))+": 203.0.113.9",
				strings.Replace(name, "-", string(c), 1)+": 203.0.113.9", strings.ToLower(strings.ReplaceAll(name, "-", string(c)))+": 203.0.113.9")
		}
	}
	own := http.Header{"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Host": {"site.example"}, "X-Forwarded-Proto": {"http"}}
	for _, passed := range []bool{false, true} {
		r := start(t, echoHeader, func(s *setup) { s.underscores = passed })
		want := own.Clone()
		if passed {
			want["Api_key"], want["Api.key"] = []string{"1"}, []string{"2"}
		}
		r.checkHeard(want, append(never, "api_key: 1", "api.key: 2")...)
	}
}

// TestUpgradesThatAreNot: the proxy doesn't pass on a request to upgrade to anything except WebSocket. The
// client gets an answer without an upgrade.
func TestUpgradesThatAreNot(t *testing.T) {
	for asked, want := range map[string]string{
		"websocket": "websocket", "WebSocket": "WebSocket", "h2c, websocket": "websocket", "websocket/13": "websocket/13",
		"h2c": "", "TLS/1.0, HTTP/1.1": "", "": "", "web socket": "", "websocket/\xff": "", "websocketx": "",
	} {
		testkit.Same(t, want, mayUpgrade(asked), "%q: asked for", asked)
	}
}

// rawBackend serves back with a handler of raw connections. answer gets each request's head as text, without
// its last line end, and returns the response.
func rawBackend(t *testing.T, back wire, answer func(head string) string) {
	t.Helper()
	back.serveEach(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		for {
			var head strings.Builder
			for !strings.HasSuffix(head.String(), "\r\n\r\n") {
				line, err := br.ReadString('\n')
				if err != nil {
					return
				}
				head.WriteString(line)
			}
			if _, err := fmt.Fprint(c, answer(strings.TrimSuffix(head.String(), "\r\n\r\n"))); err != nil {
				return
			}
		}
	})
}

// withBody is a complete response.
func withBody(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// startRaw starts a proxy in front of a rawBackend.
func startRaw(t *testing.T, answer func(head string) string) *rig {
	t.Helper()
	back := loopback(t)
	rawBackend(t, back, answer)
	return startOn(t, loopback(t), back, nil)
}

// startHeadEcho starts a proxy in front of a backend that answers with the request's head.
func startHeadEcho(t *testing.T) *rig {
	t.Helper()
	return startRaw(t, withBody)
}

// TestTargetBytes sends request targets that parsing and formatting would change, and checks the bytes that
// the backend got.
func TestTargetBytes(t *testing.T) {
	r := startHeadEcho(t)
	c := r.dial()
	br := bufio.NewReader(c)
	for _, target := range []string{
		"/", "/a/b.html", "//", "//a//b", "/./a", "/../a", "/a/../../b/.", "/a%2Fb", "/a%2fb", "/%7e", "/~", "/%7E/%41",
		"/caf%C3%A9", "/caf%c3%a9", "/caf\xc3\xa9", "/\xff\xfe", "/a%00b", "/%25", "/%2525", "/a;b=c/d", "/a:b@c!$&'()*+,=",
		"/{a}|b\\^`<c>\"", "/%20", "/a+b", "/*", "/http://x/y", "/:80",
		"/?", "/??", "/?a", "/?a=", "/?a=b;c", "/?a=b&&c&", "/?%zz", "/?%", "/?%4", "/?a=%2F%2f", "/?q=caf\xc3\xa9\xff", "/?\"'<>{}|\\^`",
		"/?http://x/?y", "/?a[]=1&a[]=2", "/?;", "//?a=b;c", "//a%2f?", "/{}?%zz;",
	} {
		send(t, c, "GET "+target+" HTTP/1.1\r\nHost: h\r\n\r\n")
		head := readAll(t, answer(t, br, "GET"))
		got, _, _ := strings.Cut(head, "\r\n")
		testkit.Same(t, "GET "+target+" HTTP/1.1", got, "the backend got")
	}
}

// TestTargetForms sends request targets that aren't plain paths.
func TestTargetForms(t *testing.T) {
	r := startHeadEcho(t)
	for _, tc := range []struct{ name, send, line, host string }{
		{"absolute", "GET http://Other.example:8080/a%2Fb?x;y HTTP/1.1\r\nHost: ignored\r\n", "GET /a%2Fb?x;y HTTP/1.1", "Other.example:8080"},
		{"absolute as it is written", "GET http://other.example/%7e\"//http://i/j HTTP/1.1\r\nHost: ignored\r\n", "GET /%7e\"//http://i/j HTTP/1.1", "other.example"},
		{"absolute without path", "GET http://other.example HTTP/1.1\r\nHost: ignored\r\n", "GET / HTTP/1.1", "other.example"},
		{"absolute with query alone", "GET http://other.example?a HTTP/1.1\r\nHost: ignored\r\n", "GET /?a HTTP/1.1", "other.example"},
		{"absolute for the server", "OPTIONS http://other.example HTTP/1.1\r\nHost: ignored\r\n", "OPTIONS * HTTP/1.1", "other.example"},
		{"absolute of a path for OPTIONS", "OPTIONS http://other.example/ HTTP/1.1\r\nHost: ignored\r\n", "OPTIONS / HTTP/1.1", "other.example"},
		{"absolute https", "GET https://other.example/a HTTP/1.1\r\nHost: ignored\r\n", "GET /a HTTP/1.1", "other.example"},
		{"asterisk", "OPTIONS * HTTP/1.1\r\nHost: h\r\n", "OPTIONS * HTTP/1.1", "h"},
		{"HTTP/1.0", "GET /a HTTP/1.0\r\nHost: h\r\n", "GET /a HTTP/1.1", "h"},
		{"HTTP/1.0 without Host", "GET /a HTTP/1.0\r\n", "GET /a HTTP/1.1", "backend.invalid"},
		{"unusual method", "M-SEARCH /a HTTP/1.1\r\nHost: h\r\n", "M-SEARCH /a HTTP/1.1", "h"},
		{"Host", "GET / HTTP/1.1\r\nHost: SITE.Example:8080\r\n", "GET / HTTP/1.1", "SITE.Example:8080"},
		{"Host of IPv6", "GET / HTTP/1.1\r\nHost: [2001:DB8::1]:80\r\n", "GET / HTTP/1.1", "[2001:DB8::1]:80"},
		{"Host with underscore", "GET / HTTP/1.1\r\nHost: a_b..c\r\n", "GET / HTTP/1.1", "a_b..c"},
	} {
		_, head := r.say(tc.send + "\r\n")
		lines := strings.Split(head, "\r\n")
		if lines[0] != tc.line || lines[1] != "Host: "+tc.host {
			t.Errorf("%s: the backend got %q, want %q for host %q", tc.name, lines[:2], tc.line, tc.host)
		}
	}
}

// TestMalformedRequests: requests of each kind that the parser or the Handler rejects are counted or
// recorded. Package http1 checks what else is malformed.
func TestMalformedRequests(t *testing.T) {
	back := loopback(t)
	rawBackend(t, back, withBody)
	var malformed atomic.Int64
	requests := int64(0)
	r := startOn(t, loopback(t), back, nil, func(s *setup) { s.server.Malformed = func() { malformed.Add(1) } })
	for text, status := range map[string]int{
		"CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n": 405,
		"GET / HTTP/1.1\r\n\r\n":                                                                                    400,
		"GET http://u@h/ HTTP/1.1\r\nHost: h\r\n\r\n":                                                               400,
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n":                                    400,
		"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nz" + strings.Repeat("z\r\n", 1<<20):        400,
		"GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("a", 2*maxHeader) + "\r\n\r\n":                          431,
		"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: \xff\r\nUser-Agent: odd upgrade type\r\n\r\n": 200,
	} {
		if res, _ := r.say(text); res.StatusCode != status {
			t.Errorf("%.60q: got %v, want %d", text, res, status)
		}
		requests++
	}
	if n, lines := malformed.Load(), int64(len(r.lines())); n == 0 || n+lines != requests {
		t.Errorf("of %d requests %d are none, and %d others were noted", requests, n, lines)
	}
}

// BenchmarkPath sends a small page through the proxy, without a kernel: client and backend are connections in
// memory that never wait. The benchmark therefore measures the CPU time and allocations of the code itself.
func BenchmarkPath(b *testing.B) {
	for _, m := range []limiter.Mode{limiter.Observe, limiter.Fair} {
		b.Run(m.String(), func(b *testing.B) {
			ask := wireless(b, m)
			b.ReportAllocs()
			b.ResetTimer()
			ask(b.N)
		})
	}
}

// TestPathAllocatesLittle counts the allocations of a GET: the heads of request and answer, each as one text,
// what classify keeps of the request, and its entry among the running requests. The ticker needs some as
// well.
func TestPathAllocatesLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector has pools lose what they keep")
	}
	for _, m := range []limiter.Mode{limiter.Observe, limiter.Fair} {
		ask := wireless(t, m)
		ask(100)
		const n = 2000
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		ask(n)
		runtime.ReadMemStats(&after)
		if got := float64(after.Mallocs-before.Mallocs) / n; got >= 5 {
			t.Errorf("%v: %.2f allocations for a request", m, got)
		}
	}
}

// wireless starts a proxy without a kernel. The function ask sends a number of requests over one connection.
func wireless(t testing.TB, m limiter.Mode) (ask func(times int)) {
	dial := func(context.Context) (net.Conn, error) {
		return &scripted{says: benchResponse(), after: true}, nil
	}
	upstream := &Upstream{timeout: time.Minute, pool: backend.NewPool(dial, "", time.Minute), log: zap.NewNop()}
	t.Cleanup(upstream.Close)
	h := benchHandler(t, m, upstream)
	return func(times int) {
		client := &scripted{says: []byte(benchRequest), left: times, done: make(chan struct{})}
		s := front.NewServer(h, front.Options{
			Header: time.Minute, Idle: time.Minute, MaxHead: maxHeader, Log: zap.NewNop(),
			Table:   connlimit.New(time.Now(), 1),
			Peer:    func(string) (netip.Addr, bool) { return netip.Addr{}, false },
			Context: func(ctx context.Context, c net.Conn) context.Context { return connContext(ctx, c, &closing{}) },
		})
		l := testkit.NewPipes()
		go func() {
			_ = l.Offer(context.Background(), client)
			<-client.done
			_ = s.Shutdown(context.Background())
		}()
		if err := s.Serve(l, front.Entrance{}); !errors.Is(err, http.ErrServerClosed) {
			t.Fatal(err)
		}
		if least := times * len(benchBody); client.written < least {
			t.Fatalf("%d bytes were answered, want more than %d", client.written, least)
		}
	}
}

// scripted is a connection whose other side repeats the same text, a number of times or once after each
// write.
type scripted struct {
	net.Conn
	says    []byte
	rest    []byte
	left    int
	after   bool
	written int
	done    chan struct{} // closed when all of it was sent
}

func (c *scripted) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		if c.left--; c.left < 0 {
			close(c.done)
			return 0, io.EOF
		}
		c.rest = c.says
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

func (c *scripted) Write(p []byte) (int, error) {
	c.written += len(p)
	if c.after {
		c.left++
	}
	return len(p), nil
}

func (c *scripted) Close() error                     { return nil }
func (c *scripted) SetDeadline(time.Time) error      { return nil }
func (c *scripted) SetReadDeadline(time.Time) error  { return nil }
func (c *scripted) SetWriteDeadline(time.Time) error { return nil }
func (c *scripted) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4711} }
func (c *scripted) LocalAddr() net.Addr              { return c.RemoteAddr() }

const benchRequest = "GET /page/12?a=1 HTTP/1.1\r\nHost: site.example\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:1.0) Gecko/20100101 Firefox/115.0\r\n" +
	"Accept: text/html\r\nAccept-Encoding: gzip\r\nCookie: a=b\r\n\r\n"

// benchBody is a small page.
var benchBody = bytes.Repeat([]byte("x"), 1000)

// benchResponse is the answer of the benchmark's backend.
func benchResponse() []byte {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nServer: x\r\nDate: Tue, 15 Nov 1994 08:12:31 GMT\r\nContent-Length: 1000\r\n\r\n"
	return append([]byte(head), benchBody...)
}

// benchHandler has four classes that no client exhausts.
func benchHandler(b testing.TB, m limiter.Mode, upstream *Upstream) *Handler {
	b.Helper()
	p := &Policy{Upstream: upstream, Access: telemetry.AccessSampled, Body: time.Minute, Write: time.Minute}
	var classes []classify.Class
	for _, name := range []string{"slash32", "slash24", "slash16", "userAgent"} {
		classes = append(classes, classify.Class{Name: name, By: classify.By(name)})
		p.Limits.Classes = append(p.Limits.Classes, limiter.ClassInfo{Name: name, Budget: limiter.Budget{CPUs: 1000, Burst: time.Minute}})
	}
	p.Limits.Mode, p.Limits.MaxHold, p.Limits.MaxHeld = m, time.Minute, 100
	p.Classifier = classify.New(classify.Config{Classes: classes, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	p.Meter = cpuaccount.NewMeter(cpuaccount.Corrected, 2)
	h := NewHandler(limiter.New(time.Now(), p.Limits, 65536, nil), p, telemetry.NewAccessLog(zap.NewNop(), telemetry.NewWords()))
	ctx, cancel := context.WithCancel(context.Background())
	var drive sync.WaitGroup
	drive.Go(func() { h.Drive(ctx) })
	b.Cleanup(func() { cancel(); drive.Wait() })
	return h
}
