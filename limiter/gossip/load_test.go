package gossip

import (
	"fmt"
	"math/rand/v2"
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
			r.Charge(w.now, limiter.Charge{Key: testKey(z.draw()), Cost: 50 * time.Millisecond})
		}
		r.Charge(w.now, limiter.Charge{Key: testKey("heavy"), Cost: 50 * time.Millisecond})
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
