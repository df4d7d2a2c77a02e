package proxy

import (
	"bytes"
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"tempomat/classify"
	"tempomat/cpuaccount"
	"tempomat/limiter"
	"tempomat/proxy/telemetry"
)

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
