package limiter

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkLife is a request that nobody delays: arrive, settle, leave, with
// four classes, all of whose keys are found in the cache or, the second time,
// are spread over 100,000 live ones.
func BenchmarkLife(b *testing.B) {
	for name, clients := range map[string]int{"hot": 1, "100k": 60_000} {
		b.Run(name, func(b *testing.B) {
			p := Policy{Mode: Cooperative, MaxHold: 30 * time.Second, MaxHeld: 512, MaxHeldPerClient: 64}
			for _, class := range []string{"slash32", "slash24", "slash16", "userAgent"} {
				p.Classes = append(p.Classes, ClassInfo{class, Budget{CPUs: 1, Burst: time.Hour}})
			}
			now := time.Now()
			l := New(now, p, 1<<17, nil)
			keys := make([][]Key, clients)
			for i := range keys {
				keys[i] = []Key{
					{"slash32", fmt.Sprintf("10.%d.%d.%d", i>>12, i>>4&255, i&15)},
					{"slash24", fmt.Sprintf("10.%d.%d.0/24", i>>12, i>>1&255)},
					{"slash16", fmt.Sprintf("10.%d.0.0/16", i>>4)},
					{"userAgent", fmt.Sprintf("robot %d", i%50)},
				}
			}
			life := func(i int) {
				now = now.Add(10 * time.Microsecond)
				t := l.Arrive(now, Arrival{Keys: keys[i*7919%clients], Guess: time.Millisecond})
				l.Settle(now, t, time.Millisecond)
				l.Leave(now, t)
			}
			for i := range keys {
				life(i)
			}
			b.ReportMetric(float64(l.Keys()), "keys")
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				life(i)
			}
			b.ReportMetric(float64(l.Keys()), "keys")
		})
	}
}
