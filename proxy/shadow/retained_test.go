package shadow

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/telemetry"
)

// TestMemoryLevelsOff: while each request is another client's, of another User-Agent and for
// another page, what a Twin keeps grows until it has as many of each as it may, and no more.
func TestMemoryLevelsOff(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has memory of its own")
	}
	const perSecond, rounds, round = 120, 5, 60
	for _, mode := range []limiter.Mode{limiter.Fair, limiter.Cap} {
		twin := New(2)
		twin.SetPlan(&Plan{Mode: mode.String(), Policy: limits(mode), TableSize: 1 << 12, CPUs: 2, Measures: true})
		names := classes(t)
		var kept [rounds]uint64
		n := 0
		for i := range rounds {
			for range perSecond * round {
				n++
				at := time.Duration(n) * time.Second / perSecond
				r := &telemetry.Record{Arrived: noon.Add(at), Status: 200, Asked: true, Group: telemetry.Stranger}
				r.Cost, r.CPU, r.Stay, r.Guess = 10*time.Millisecond, 10*time.Millisecond, 10*time.Millisecond, 10*time.Millisecond
				client := netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
				r.Request = requestOf(&asked{client: client.String(), target: fmt.Sprintf("/%c%c%c%c", 'a'+n%26, 'a'+n/26%26, 'a'+n/676%26, 'a'+n/17576%26)})
				var ask seen
				names.Classify(r.Request, &ask.who)
				r.Who = &ask.who
				twin.Note(r.Arrived.Add(r.Stay), r)
				if n%500 == 0 {
					twin.Play(r.Arrived)
				}
			}
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			kept[i] = m.HeapAlloc
			t.Logf("%s: after %v %d KB, %d lost", mode, time.Duration(n)*time.Second/perSecond, kept[i]>>10, twin.Lost())
		}
		if last := kept[rounds-1]; last > kept[1]+1<<20 {
			t.Errorf("%s: %d KB are kept after two minutes, and %d KB after five", mode, kept[1]>>10, last>>10)
		}
		if twin.Lost() > 0 {
			t.Errorf("%d requests were left out", twin.Lost())
		}
		runtime.KeepAlive(twin)
	}
}
