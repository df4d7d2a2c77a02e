package gossip

import (
	"container/heap"
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"tempomat/limiter"
)

// world is a fleet on virtual time: real limiters and replicas, and a network that
// delays, reorders, loses and splits.
type world struct {
	t          testing.TB
	start, now time.Time
	random     *rand.Rand
	events     events
	seq        int
	cars       []*car

	delay, jitter time.Duration
	loss, twice   float64
	undivided     bool // each has the whole burst
	lost          int
}

// car is one sidecar.
type car struct {
	*limiter.Limiter
	w       *world
	id      Node
	replica *Replica
	skew    time.Duration // its clock is ahead of the world's
	side    int           // of a split
	down    bool
	spent   float64 // CPU-seconds that it let through
}

type event struct {
	at  time.Time
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// The limit in the tests is that of the table of overshoots: 100 requests per
// second of 10 ms each, and 100 of them at once.
const (
	testRate  = 1.0
	testBurst = 1.0
	testCost  = 10 * time.Millisecond
)

// offered is how many requests a second the client makes of all sidecars together.
func offered() time.Duration {
	if testing.Short() {
		return 1000
	}
	return 5000
}

func newWorld(t testing.TB, seed uint64) *world {
	start := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	return &world{
		t: t, start: start, now: start, random: rand.New(rand.NewPCG(seed, 1)),
		delay: time.Millisecond,
	}
}

func testPolicy() limiter.Policy {
	return limiter.Policy{Mode: limiter.Cap, MaxHold: 1, MaxHeld: 1000, Classes: []limiter.ClassInfo{
		{Name: "slash32", Budget: limiter.Budget{CPUs: testRate, Burst: testBurst * time.Second}},
	}}
}

func testKey(id string) limiter.Key { return limiter.Key{Class: "slash32", ID: id} }

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.events, event{w.now.Add(d), w.seq, do})
}

// run lets d pass.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for len(w.events) > 0 && !w.events[0].at.After(end) {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
	}
	w.now = end
}

// add starts one more sidecar, which nobody knows yet.
func (w *world) add(skew time.Duration) *car {
	c := &car{w: w, id: Node(len(w.cars) + 1), skew: skew}
	c.Limiter = limiter.New(c.clock(), testPolicy(), 1<<14, c)
	c.replica = NewReplica(c.id, (*sink)(c))
	w.cars = append(w.cars, c)
	w.after(time.Duration(w.random.Int64N(int64(epoch))), c.ticks)
	w.after(time.Duration(w.random.Int64N(int64(stateEach))), c.exchanges)
	return c
}

func (c *car) clock() time.Time { return c.w.now.Add(c.skew) }

// ticks tells all others what is new, in each epoch.
func (c *car) ticks() {
	if c.down {
		return
	}
	for _, packet := range c.replica.Tick(c.clock()) {
		for _, to := range c.replica.live {
			c.w.carry(c, c.w.cars[to-1], packet)
		}
	}
	c.w.after(epoch, c.ticks)
}

// exchanges has a car exchange states with one of the others now and then.
func (c *car) exchanges() {
	if n := len(c.replica.live); n > 0 && !c.down {
		c.exchange(c.w.cars[c.replica.live[c.w.random.IntN(n)]-1])
	}
	c.w.after(stateEach, c.exchanges)
}

// exchange is memberlist's exchange of states, over a stream: both or neither.
func (c *car) exchange(o *car) {
	if c.side != o.side || c.down || o.down {
		return
	}
	mine := c.replica.state(debtsOf(c.clock(), c.Limiter))
	theirs := o.replica.state(debtsOf(o.clock(), o.Limiter))
	o.replica.Received(o.clock(), mine)
	c.replica.Received(c.clock(), theirs)
}

// sink is a car's limiter, where all may have the whole burst.
type sink car

func (s *sink) Debit(now time.Time, c limiter.Charge) { s.Limiter.Debit(now, c) }
func (s *sink) Raise(now time.Time, k limiter.Key, until time.Time) {
	s.Limiter.Raise(now, k, until)
}
func (s *sink) SetReplicas(now time.Time, n int) {
	if !s.w.undivided {
		s.Limiter.SetReplicas(now, n)
	}
}

func (s *sink) Learn(now time.Time, packet []byte) { s.Limiter.Learn(now, packet) }

// Offer, Carry, Run and Status are limiter.Sharer.
func (c *car) Offer(x limiter.Charge) bool {
	if x.Event == limiter.Settled {
		c.replica.Charge(c.clock(), x)
	}
	return true
}

func (c *car) Carry([]byte) bool { return true }

func (c *car) Run(context.Context, limiter.Sink) error { return nil }

func (c *car) Status() limiter.SharingStatus { return limiter.SharingStatus{} }

// carry has a message go over the network, or not.
func (w *world) carry(from, to *car, data []byte) {
	if from.side != to.side || w.random.Float64() < w.loss {
		w.lost++
		return
	}
	if w.random.Float64() < w.twice {
		w.after(w.delay, func() { w.carry(from, to, data) })
	}
	d := w.delay
	if w.jitter > 0 {
		d += time.Duration(w.random.Int64N(int64(w.jitter)))
	}
	w.after(d, func() {
		if !to.down && from.side == to.side {
			to.replica.Received(to.clock(), data)
		}
	})
}

// setMembers tells each car who is live on its side.
func (w *world) setMembers() {
	for _, c := range w.cars {
		var live []Node
		for _, o := range w.cars {
			if o != c && !o.down && o.side == c.side {
				live = append(live, o.id)
			}
		}
		if !c.down {
			c.replica.SetMembers(c.clock(), live)
		}
	}
}

// fleet starts n cars that know each other.
func (w *world) fleet(n int) {
	for range n {
		w.add(0)
	}
	w.setMembers()
	for _, c := range w.cars[1:] {
		c.exchange(w.cars[0])
	}
	w.run(2 * time.Second)
}

// ask sends one request of a client to a car.
func (c *car) ask(client string) bool { return c.spend(client, testCost) }

func (c *car) spend(client string, cost time.Duration) bool {
	now := c.clock()
	t := c.Arrive(now, limiter.Arrival{Client: testKey(client), Guess: cost})
	defer c.Leave(now, t)
	if t.Verdict().Refused() {
		return false
	}
	c.Settle(now, t, cost)
	c.spent += cost.Seconds()
	return true
}

// bill charges a client, also one that would be refused.
func (c *car) bill(client string, cost time.Duration) {
	charge := limiter.Charge{Key: testKey(client), Event: limiter.Settled, Cost: cost}
	c.Debit(c.clock(), charge)
	c.Offer(charge)
}

// siege has a client ask all cars in turn for far more than it may have.
func (w *world) siege(d time.Duration, step func()) {
	each := time.Second / offered()
	for end := w.now.Add(d); w.now.Before(end); {
		c := w.cars[w.random.IntN(len(w.cars))]
		if !c.down {
			c.ask("greedy")
		}
		step()
		w.run(each)
	}
}

// spent is what all cars let through.
func (w *world) spent() (sum float64) {
	for _, c := range w.cars {
		sum += c.spent
	}
	return sum
}

func (c *car) level(client string) float64 {
	r, ok := c.Find(c.clock(), testKey(client))
	if !ok {
		return testBurst
	}
	return r.Level
}

// besiege measures the long-run rate as a part of the limit, after the first few
// seconds, and the greatest overshoot beyond what one sidecar allows, in requests.
func (w *world) besiege(d time.Duration) (rate, overshoot float64) {
	began, first := w.now, w.spent()
	var settled time.Time
	var at float64
	w.siege(d, func() {
		over := w.spent() - first - testBurst - testRate*w.now.Sub(began).Seconds()
		overshoot = max(overshoot, over)
		if settled.IsZero() && w.now.Sub(began) > d/3 {
			settled, at = w.now, w.spent()
		}
	})
	rate = (w.spent() - at) / (testRate * w.now.Sub(settled).Seconds())
	return rate, math.Round(overshoot / testCost.Seconds())
}
