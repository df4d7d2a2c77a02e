package limiter

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkLife measures the life of a request that isn't delayed: arrive, settle, leave. There are four
// classes. In the first case, all keys are in the CPU's cache; in the second, the requests use 100,000 keys.
func BenchmarkLife(b *testing.B) {
	for _, c := range []struct {
		mode    Mode
		clients int
	}{{Cooperative, 1}, {Fair, 1}, {Cooperative, 60_000}, {Fair, 60_000}} {
		b.Run(fmt.Sprint(c.mode, "/", c.clients), func(b *testing.B) {
			now := time.Now()
			l := New(now, benchPolicy(c.mode), 1<<17, nil)
			clients, keys := c.clients, benchKeys(c.clients)
			life := func(i int) {
				now = now.Add(10 * time.Microsecond)
				t := l.Arrive(now, Arrival{Client: keys[i*7919%clients][0], Others: keys[i*7919%clients][1:], Guess: time.Millisecond})
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

// BenchmarkGate measures a full gate: 512 requests from as many clients wait, and the gate has seen 100,000
// clients. In each step, one request arrives, one ends, and one starts.
func BenchmarkGate(b *testing.B) {
	for name, known := range map[string]bool{"known": true, "strangers": false} {
		b.Run(name, func(b *testing.B) { besiege(b, known) })
	}
}

func besiege(b *testing.B, known bool) {
	const waiting, clients = 512, 100_000
	p := benchPolicy(Fair)
	p.MaxHeld, p.Gate = 2*waiting, GateOptions{CPUs: 2, Workers: 16}
	now := time.Now()
	l := New(now, p, 1<<19, nil)
	keys := benchKeys(clients)
	for i := range keys {
		t := l.Arrive(now, Arrival{Client: keys[i][0], Others: keys[i][1:], Guess: time.Millisecond})
		l.Settle(now, t, time.Millisecond)
		l.Leave(now, t)
	}
	next := 0
	arrive := func() *Ticket {
		now = now.Add(10 * time.Microsecond)
		next = (next + 7919) % clients
		return l.Arrive(now, Arrival{Client: keys[next][0], Others: keys[next][1:], Guess: 400 * time.Millisecond, Sure: true, Proven: known})
	}
	first, second := arrive(), arrive()
	for range waiting {
		arrive()
	}
	b.ReportAllocs()
	for b.Loop() {
		arrive()
		// The next request to start is known in advance, so no search is needed.
		upcoming := upNext(l.gate, known)
		l.Settle(now, first, 400*time.Millisecond)
		l.Leave(now, first)
		if !upcoming.phase.running() {
			b.Fatal("the request whose turn it was is not at the backend")
		}
		first, second = second, upcoming
	}
	if n := l.GateState().Queued; n < waiting-2 || n > waiting+2 {
		b.Fatalf("%d requests wait", n)
	}
}

// upNext returns the waiting request that starts next.
func upNext(g *gate, known bool) *Ticket {
	q := &g.home.queues[rungOf(0.4)]
	if known {
		return q.underShare.top()
	}
	return q.strange.top()
}

func benchPolicy(m Mode) Policy {
	p := Policy{Mode: m, MaxHold: 30 * time.Second, MaxHeld: 512}
	for _, class := range []string{"slash32", "slash24", "slash16", "userAgent"} {
		p.Classes = append(p.Classes, ClassInfo{class, Budget{CPUs: 1, Burst: time.Hour}})
	}
	return p
}

func benchKeys(n int) [][]Key {
	keys := make([][]Key, n)
	for i := range keys {
		keys[i] = []Key{
			{Class: "slash32", ID: fmt.Sprintf("10.%d.%d.%d", i>>12, i>>4&255, i&15)},
			{Class: "slash24", ID: fmt.Sprintf("10.%d.%d.0/24", i>>12, i>>1&255)},
			{Class: "slash16", ID: fmt.Sprintf("10.%d.0.0/16", i>>4)},
			{Class: "userAgent", ID: fmt.Sprintf("robot %d", i%50)},
		}
	}
	return keys
}
