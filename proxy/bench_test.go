package proxy

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"tempomat/classify"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy/telemetry"
	"tempomat/proxy/telemetry/book"
	"tempomat/proxy/telemetry/metrics"
)

const (
	benchConns = 16
	benchSlice = 3000 // requests of one slice of a pair
)

func median(xs []float64) float64 {
	slices.Sort(xs)
	return xs[len(xs)/2]
}

const benchRequest = "GET /page/12?a=1 HTTP/1.1\r\nHost: site.example\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:1.0) Gecko/20100101 Firefox/115.0\r\n" +
	"Accept: text/html\r\nAccept-Encoding: gzip\r\nCookie: a=b\r\n\r\n"

// run sends a slice's requests over a few connections.
func run(b *testing.B, conns []net.Conn) (took time.Duration, mallocs uint64) {
	b.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	from := time.Now()
	var all sync.WaitGroup
	for _, c := range conns {
		all.Go(func() {
			br := bufio.NewReaderSize(c, 8<<10)
			for range benchSlice / len(conns) {
				_, err := io.WriteString(c, benchRequest)
				if err == nil {
					err = skipResponse(br)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	took = time.Since(from)
	runtime.ReadMemStats(&after)
	return took, after.Mallocs - before.Mallocs
}

// benchBody is a small page.
var benchBody = bytes.Repeat([]byte("x"), 1000)

// skipResponse reads a response of the benchmark's backend.
func skipResponse(br *bufio.Reader) error {
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			_, err := br.Discard(len(benchBody))
			return err
		}
	}
}

// benchResponse is what the benchmark's backend says.
func benchResponse() []byte {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nServer: x\r\nDate: Tue, 15 Nov 1994 08:12:31 GMT\r\nContent-Length: 1000\r\n\r\n"
	return append([]byte(head), benchBody...)
}

// benchBackend answers every request with the same bytes.
func benchBackend(b testing.TB) *url.URL {
	b.Helper()
	l, err := Listen(b.Context(), "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	response := benchResponse()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				br := bufio.NewReaderSize(c, 8<<10)
				for {
					line, err := br.ReadSlice('\n')
					if err != nil {
						return
					}
					if len(line) == 2 {
						_, _ = c.Write(response)
					}
				}
			}()
		}
	}()
	return &url.URL{Scheme: "http", Host: l.Addr().String()}
}

// benchHandler has four classes that nobody exhausts.
func benchHandler(b testing.TB, m limiter.Mode, upstream *Upstream) *Handler {
	b.Helper()
	p := &Policy{Upstream: upstream, Access: telemetry.AccessSampled, Body: time.Minute, Write: time.Minute}
	var classes []classify.Class
	for _, name := range []string{"slash32", "slash24", "slash16", "userAgent"} {
		classes = append(classes, classify.Class{Name: name, By: classify.By(name)})
		p.Limits.Classes = append(p.Limits.Classes, limiter.ClassInfo{Name: name, Budget: limiter.Budget{CPUs: 1000, Burst: time.Minute}})
	}
	p.Limits.Mode, p.Limits.MaxHold, p.Limits.MaxHeld = m, time.Minute, 100
	var err error
	p.Classifier, err = classify.New(classify.Config{Classes: classes, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	if err != nil {
		b.Fatal(err)
	}
	p.Meter = cpuaccount.NewMeter(cpuaccount.Corrected, 2, 0)
	h := NewHandler(limiter.New(time.Now(), p.Limits, 65536, nil), p, telemetry.NewAccessLog(zap.NewNop(), telemetry.NewWords()))
	ctx, cancel := context.WithCancel(context.Background())
	var drive sync.WaitGroup
	drive.Go(func() { h.Drive(ctx) })
	b.Cleanup(func() { cancel(); drive.Wait() })
	return h
}

// benchServer serves a handler and returns connections to it.
func benchServer(b *testing.B, h http.Handler) []net.Conn {
	b.Helper()
	l, err := Listen(b.Context(), "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := NewServer(h, ServerOptions{Header: time.Minute, Idle: time.Minute, Log: zap.NewNop()})
	done := make(chan error, 1)
	go func() { done <- s.Serve(plain(l)) }()
	var conns []net.Conn
	for range benchConns {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		conns = append(conns, c)
	}
	b.Cleanup(func() {
		for _, c := range conns {
			_ = c.Close()
		}
		_ = s.Drain(context.Background())
		<-done
	})
	return conns
}

// BenchmarkGet is a small page through the proxy, from one real socket to another: what
// it allocates is the proxy's, as client and backend allocate nothing.
func BenchmarkGet(b *testing.B) {
	for _, m := range []limiter.Mode{limiter.Observe, limiter.Fair} {
		b.Run(m.String(), func(b *testing.B) {
			upstream := NewUpstream(Backend{URL: benchBackend(b), DialTimeout: time.Second, Timeout: time.Minute}, zap.NewNop())
			b.Cleanup(upstream.Close)
			c := benchServer(b, benchHandler(b, m, upstream))[0]
			br := bufio.NewReaderSize(c, 8<<10)
			ask := []byte(benchRequest)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Write(ask); err != nil {
					b.Fatal(err)
				}
				if err := skipResponse(br); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTelemetry compares the sidecar with all telemetry on with the same without any but
// the sampled access log. The two take turns, so that what else the machine does meets both
// alike. Client and backend are in this process, and do next to nothing. It reports
//
//	cpu-ns     CPU time that a request takes, client and backend included, without telemetry
//	added-ns   median of the pairs' differences
func BenchmarkTelemetry(b *testing.B) {
	upstream := NewUpstream(Backend{URL: benchBackend(b), DialTimeout: time.Second, Timeout: time.Minute}, zap.NewNop())
	b.Cleanup(upstream.Close)
	accessLog := telemetry.NewAccessLog(zap.NewNop(), telemetry.NewWords())
	counts, all := telemetry.NewCounts(), book.New(time.Now())
	feed := telemetry.NewFeed(counts)
	inside := benchHandler(b, limiter.Fair, upstream)
	inside.records = telemetry.Recorders{feed, metrics.NewDurations(), accessLog}
	without := benchHandler(b, limiter.Fair, upstream)
	without.records = telemetry.Recorders{accessLog}
	with, bare := benchServer(b, inside), benchServer(b, without)
	run(b, with)
	run(b, bare)
	var added, cost []float64
	var drained time.Time
	b.ResetTimer()
	for i := range b.N {
		var w, o float64
		measure := func(first bool) {
			if first == (i%2 == 0) {
				from := cpuTime(b)
				run(b, with)
				if now := time.Now(); now.Sub(drained) >= time.Second/4 { // as often as the sidecar does
					feed.Drain(now, all)
					drained = now
				}
				w = (cpuTime(b) - from).Seconds()
			} else {
				from := cpuTime(b)
				run(b, bare)
				o = (cpuTime(b) - from).Seconds()
			}
		}
		measure(true)
		measure(false)
		added, cost = append(added, (w-o)*1e9/benchSlice), append(cost, o*1e9/benchSlice)
	}
	b.StopTimer()
	b.ReportMetric(median(added), "added-ns")
	b.ReportMetric(median(cost), "cpu-ns")
}

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
