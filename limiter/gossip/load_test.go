package gossip

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"tempomat/limiter"
)

// zipf names the keys of a busy site: a few heavy ones, very many light ones.
type zipf struct {
	names []string
	rank  *rand.Zipf
}

func newZipf(seed uint64, keys int) *zipf {
	z := &zipf{rank: rand.NewZipf(rand.New(rand.NewPCG(seed, 1)), 1.1, 10, uint64(keys-1))}
	for i := range keys {
		h := uint32(i) * 2654435761
		z.names = append(z.names, fmt.Sprintf("%d.%d.%d.%d", h>>24, h>>16&255, h>>8&255, h&255))
	}
	return z
}

func (z *zipf) draw() string { return z.names[z.rank.Uint64()] }

// TestBudget: when there are more keys than may be told, the heaviest go first,
// the budget holds, and what waits, or waits for too long, is counted.
func TestBudget(t *testing.T) {
	const perSecond, seconds = 20_000, 20
	w := newWorld(t, 6)
	for range 3 {
		w.add(0).replica.budget = perSecond
	}
	w.setMembers()
	w.run(time.Second)
	z := newZipf(1, 20_000)
	r := w.cars[0].replica
	before := r.counts
	for range seconds * 100 {
		for range 100 {
			r.charge(w.now, limiter.Charge{Key: testKey(z.draw()), Cost: 50 * time.Millisecond})
		}
		r.charge(w.now, limiter.Charge{Key: testKey("heavy"), Cost: 50 * time.Millisecond})
		w.run(10 * time.Millisecond)
	}
	k := r.counts
	sent := float64(k.Sent - before.Sent)
	t.Logf("%.0f bytes/s of %d; %d keys wait", sent/seconds, perSecond, k.Waiting)
	if sent > 1.15*perSecond*(seconds+1) {
		t.Errorf("%.0f bytes/s were sent, want at most %d", sent/seconds, perSecond)
	}
	if k.Waiting == 0 {
		t.Error("what was not sent was not counted")
	}
	if x := r.tallies[testKey("heavy")].untold(); x > 2*10*50_000 {
		t.Errorf("%d µs of the heaviest key wait", x)
	}
	if l := w.cars[1].level("heavy"); l > -testRate*50 {
		t.Errorf("level %v: the heaviest key was not told of", l)
	}
	r.budget = 0
	w.run(idle + 10*time.Second)
	if k := r.counts; k.Dropped == 0 || k.Waiting > 0 || len(r.tallies) > 0 {
		t.Errorf("%d were given up, %d wait, and %d are kept", k.Dropped, k.Waiting, len(r.tallies))
	}
}

// BenchmarkTick is an epoch with many keys of which the budget lets some go, and of which
// peers have charged each as well.
func BenchmarkTick(b *testing.B) {
	for _, keys := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
			replica := newReplica(1, &ledger{debits: map[limiter.Key]time.Duration{}})
			nodes := []node{2, 3, 4, 5, 6, 7, 8, 9, 10}
			replica.setMembers(now, nodes)
			z := newZipf(1, keys)
			for _, id := range nodes {
				for i, name := range z.names {
					replica.received(now, packet(id, 0, name, count{uint64(i + 1), 1}))
				}
			}
			for b.Loop() {
				b.StopTimer()
				for i, name := range z.names {
					replica.charge(now, limiter.Charge{Key: testKey(name), Cost: time.Duration(i) * time.Millisecond})
				}
				now = now.Add(epoch)
				b.StartTimer()
				replica.tick(now)
			}
		})
	}
}

// BenchmarkFleet is a client that asks all sidecars of a fleet together for fifty times
// what it may have, on virtual time. docs/redis-gossip.md names it.
func BenchmarkFleet(b *testing.B) {
	for _, n := range []int{10, 30, 100} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				w := newWorld(b, 1)
				w.fleet(n)
				before := w.cars[0].replica.counts.Sent
				rate, over := w.besiege(30 * time.Second)
				b.ReportMetric(rate, "of-the-limit")
				b.ReportMetric(over, "over")
				b.ReportMetric(float64(w.cars[0].replica.counts.Sent-before)/30, "B/s")
			}
		})
	}
}

// BenchmarkState writes and reads the debts of many keys that ten nodes have charged.
func BenchmarkState(b *testing.B) {
	p := newParty(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	var debts []debt
	for i, name := range newZipf(1, 100_000).names {
		debts = append(debts, debt{testKey(name), time.Second})
		for id := range node(9) {
			p.replicas[1].received(p.now, packet(id+2, 0, name, count{uint64(i + 1), 1e6}))
		}
	}
	for _, o := range p.replicas[1].peers {
		o.strange = false
	}
	size, known := 0, 0
	for b.Loop() {
		data := p.replicas[1].state(debts)
		m, err := parse(data)
		if err != nil {
			b.Fatal(err)
		}
		size, known = len(data), len(m.keys)
		p.replicas[2].peers[1].strange = true
		p.replicas[2].received(p.now, data)
	}
	b.ReportMetric(float64(size), "bytes")
	b.ReportMetric(float64(known), "keys")
}

// BenchmarkRequest is a request's way through the limiter, beside nobody, and
// beside a sharer that two busy peers keep at work.
func BenchmarkRequest(b *testing.B) {
	request := func(b *testing.B, l *limiter.Limiter) {
		b.RunParallel(func(pb *testing.PB) {
			keys := []limiter.Key{testKey(fmt.Sprint("client-", rand.IntN(1000)))}
			for pb.Next() {
				now := time.Now()
				t := l.Arrive(now, limiter.Arrival{Client: keys[0], Others: keys[1:], Guess: time.Nanosecond})
				l.Settle(now, t, time.Nanosecond)
				l.Leave(now, t)
			}
		})
	}
	b.Run("alone", func(b *testing.B) {
		request(b, limiter.New(time.Now(), testPolicy(), 1<<16, nil))
	})
	b.Run("outbox", func(b *testing.B) { // and a goroutine that empties it
		o := drained{limiter.NewOutbox(outboxCharges)}
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = o.Run(ctx, nil) })
		request(b, limiter.New(time.Now(), testPolicy(), 1<<16, o))
		cancel()
		running.Wait()
	})
	b.Run("gossip", func(b *testing.B) {
		r := newReal()
		cars := []*sidecar{r.start(b), r.start(b), r.start(b)}
		together(b, cars...)
		ctx, cancel := context.WithCancel(context.Background())
		var peers sync.WaitGroup
		for i, c := range cars[1:] {
			peers.Go(func() { c.crowd(ctx, newZipf(uint64(i), 10_000), 1000) })
		}
		b.ResetTimer()
		request(b, cars[0].Limiter)
		b.StopTimer()
		cancel()
		peers.Wait()
		for _, c := range cars {
			c.end()
		}
	})
}

// drained is a Sharer that shares with nobody.
type drained struct{ *limiter.Outbox }

func (d drained) Run(ctx context.Context, _ limiter.Sink) error {
	tick := time.NewTicker(epoch / 4)
	defer tick.Stop()
	for ctx.Err() == nil {
		<-tick.C
		d.Drain(func(limiter.Charge) {})
	}
	return nil
}

func (drained) Status() limiter.SharingStatus { return limiter.SharingStatus{} }

// crowd has clients drawn by weight spend a little, so many times a second.
func (c *sidecar) crowd(ctx context.Context, z *zipf, perSecond int) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for range perSecond / 100 {
				c.Offer(limiter.Charge{Key: testKey(z.draw()), Cost: time.Millisecond, At: now, Received: now, Until: now})
			}
		}
	}
}
