package proxy

import (
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"tempomat/limiter"
	"tempomat/proxy/telemetry"
	"tempomat/proxy/telemetry/book"
	"tempomat/proxy/telemetry/metrics"
)

// BenchmarkTelemetry compares the sidecar with all telemetry on with the same without any but
// the sampled access log. The two take turns, so that what else the machine does meets both
// alike. Client and backend are in this process, and do next to nothing. It reports
//
//	cpu-ns     CPU time that a request takes, client and backend included, without telemetry
//	added-ns   median of the pairs' differences
func BenchmarkTelemetry(b *testing.B) {
	upstream := NewUpstream(Backend{URL: benchBackend(b), DialTimeout: time.Second, Timeout: time.Minute}, zap.NewNop())
	b.Cleanup(upstream.Close)
	accessLog := telemetry.NewAccessLog(zap.NewNop())
	counts, all := telemetry.NewCounts(), book.New(time.Now())
	feed := telemetry.NewFeed(counts)
	inside := benchHandler(b, limiter.Fair, upstream)
	inside.records = telemetry.Recorders{feed, metrics.NewDurations(time.Now(), counts), accessLog}
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
