package book

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tempomat/proxy/telemetry"
)

func BenchmarkTake(b *testing.B) {
	for name, spread := range map[string]int{"few": 8, "many": 1 << 30} {
		b.Run(name, func(b *testing.B) {
			k := New(began)
			entries := make([]telemetry.Entry, 1024)
			for i := range entries {
				n := rand.IntN(spread)
				r := request(address(n), fmt.Sprintf("/w/*/%d?title&action&diff&oldid", n), fmt.Sprintf("/w/index.php?title=P%d&action=history&diff=%d&oldid=%d", n, n, n), 10*time.Millisecond)
				r.Outcome = telemetry.Outcome(i % 7)
				entries[i] = entry(began, r, 1)
			}
			batches := make([]*telemetry.Batch, len(entries)/64)
			for i := range batches {
				batches[i] = batchOf(entries[i*64:][:64]...)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += 64 {
				k.Take(began.Add(time.Duration(i)*time.Millisecond), batches[i/64%len(batches)])
			}
		})
	}
}

// BenchmarkTick is what a second costs, whatever comes, and BenchmarkShapes what an answer
// does.
func BenchmarkTick(b *testing.B) {
	k := full()
	b.ResetTimer()
	for i := range b.N {
		now := began.Add(time.Duration(i+100) * time.Second)
		k.Tick(now, Moment{})
	}
}

func BenchmarkShapes(b *testing.B) {
	k := full()
	b.ResetTimer()
	for range b.N {
		k.Shapes(50)
	}
}

func full() *Book {
	k := New(began)
	for i := range 10_000 {
		r := request(address(i<<12), fmt.Sprintf("/%d", i%500), fmt.Sprintf("/?a=%d&b=%d", i%20, i%7), 1000*time.Second)
		k.Take(began, batchOf(entry(began, r, 1)))
	}
	return k
}
