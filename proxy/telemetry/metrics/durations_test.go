package metrics

import (
	"testing"
	"time"

	"tempomat/classify"
	"tempomat/proxy/telemetry"
)

func BenchmarkDurations(b *testing.B) {
	d, now := NewDurations(), time.Unix(1_000_000, 0)
	r := &telemetry.Record{Arrived: now.Add(-20 * time.Millisecond), Who: new(classify.Result), Held: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		d.Note(now, r)
	}
}

// BenchmarkRecorders is what exact counting costs a request that was not delayed.
func BenchmarkRecorders(b *testing.B) {
	now := time.Unix(1_000_000, 0)
	all := telemetry.Recorders{telemetry.NewCounts(), NewDurations()}
	r := &telemetry.Record{Arrived: now.Add(-20 * time.Millisecond), Cost: time.Millisecond, Who: new(classify.Result)}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			all.Note(now, r)
		}
	})
}
