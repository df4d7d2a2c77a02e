package metrics

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"go.uber.org/zap"

	"tempomat/classify"
	"tempomat/proxy/telemetry"
)

func BenchmarkDurations(b *testing.B) {
	now, counts := time.Unix(1_000_000, 0), telemetry.NewCounts()
	all := telemetry.Recorders{counts, NewDurations()}
	r := &telemetry.Record{Arrived: now.Add(-20 * time.Millisecond), Who: new(classify.Result), Held: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		all.Note(now, r)
	}
}

// BenchmarkRecorders is what telemetry costs a request: "exact" what counts each one, "all"
// that, the feed and the sampled log, as the proxy has them.
func BenchmarkRecorders(b *testing.B) {
	now := time.Unix(1_000_000, 0)
	counts := telemetry.NewCounts()
	durations, feed, accessLog := NewDurations(), telemetry.NewFeed(counts), telemetry.NewAccessLog(zap.NewNop(), telemetry.NewWords())
	r := &telemetry.Record{
		Arrived: now.Add(-20 * time.Millisecond), Cost: time.Millisecond, Access: telemetry.AccessSampled, Status: 200,
		Who:     &classify.Result{Shape: "/w/index.php?title&action"},
		Request: &http.Request{Method: "GET", Host: "h", URL: new(url.URL), RequestURI: "/w/index.php?title=A&action=history"},
	}
	for name, all := range map[string]telemetry.Recorders{"exact": {counts, durations}, "all": {feed, durations, accessLog}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				all.Note(now, r)
				if i%10_000 == 0 {
					feed.Drain(now, telemetry.NewWords())
				}
			}
		})
	}
}
