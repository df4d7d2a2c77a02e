package limiter

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// TestSeedTable is the table of the original's README: an address may use one
// CPU-second per second and sends requests of one second, so many in parallel,
// each anew when the last is answered.
//
//	parallelism  average wait  requests/s
//	1            0 s           1
//	2            1 s           1
//	3            2 s           1
func TestSeedTable(t *testing.T) {
	for _, mode := range []Mode{Cap, Cooperative} {
		for parallelism := 1; parallelism <= 3; parallelism++ {
			t.Run(fmt.Sprintf("%v %d", mode, parallelism), func(t *testing.T) {
				w := newWorld(one(mode, Budget{CPUs: 1}))
				c := &greedy{world: w, client: host("203.0.113.9"), service: second, guess: second}
				for range parallelism {
					c.send()
				}
				w.run(10 * second) // settle in
				c.answered, c.waited = 0, 0
				w.run(100 * second)
				rate := float64(c.answered) / 100
				wait := c.waited.Seconds() / float64(c.answered)
				if math.Abs(rate-1) > 0.02 {
					t.Errorf("%.3f requests/s, want 1", rate)
				}
				if want := float64(parallelism - 1); math.Abs(wait-want) > 0.02*max(1, want) {
					t.Errorf("average wait %.3f s, want %v", wait, want)
				}
			})
		}
	}
}

// greedy is a client that sends its next request when the last is answered, to
// a server with room for all.
type greedy struct {
	*world
	client         Key
	service, guess time.Duration
	answered       int
	refused        int
	waited         time.Duration
	used           time.Duration
}

func (c *greedy) send() {
	sent := c.now
	c.ask(Arrival{Client: c.client, Guess: c.guess}, func(t *Ticket) {
		if t.Verdict().Refused() {
			c.refused++
			c.Leave(c.now, t)
			c.after(t.Verdict().Wait, c.send)
			return
		}
		c.after(c.service, func() {
			c.used += c.service
			hold := c.Settle(c.now, t, c.service)
			c.after(hold, func() {
				c.Leave(c.now, t)
				c.answered++
				c.waited += c.now.Sub(sent) - c.service
				c.send()
			})
		})
	})
}

// TestHalfTheMachine is the example of the original's README: a rate of half a
// CPU, requests of two seconds, a burst to begin with.
func TestHalfTheMachine(t *testing.T) {
	for _, mode := range []Mode{Cap, Cooperative} {
		t.Run(mode.String(), func(t *testing.T) {
			w := newWorld(one(mode, Budget{CPUs: 0.5, Burst: 30 * second}))
			c := &greedy{world: w, client: host("203.0.113.9"), service: 2 * second, guess: 2 * second}
			c.send()
			w.run(50 * second)
			if c.waited != 0 {
				t.Errorf("waited %v while there was credit", c.waited)
			}
			w.run(50 * second)
			c.used = 0
			w.run(200 * second)
			if share := c.used.Seconds() / 200; math.Abs(share-0.5) > 0.01 {
				t.Errorf("used %.3f CPUs, want 0.5", share)
			}
		})
	}
}

// TestUnderLoad is the other example: one CPU, client A with two requests in
// parallel, client B with one, pages of one second, each client allowed the
// whole CPU. Alone the CPU gives A two thirds; charged for wall time, A's own
// crowding makes it pay, and each gets half.
func TestUnderLoad(t *testing.T) {
	w := newWorld(one(Cooperative, Budget{CPUs: 1}))
	cpu := &sharedCPU{world: w}
	a := &crowd{cpu: cpu, client: host("203.0.113.1")}
	b := &crowd{cpu: cpu, client: host("203.0.113.2")}
	a.send()
	a.send()
	b.send()
	w.run(100 * second)
	a.done, b.done = 0, 0
	w.run(1000 * second)
	share := float64(a.done) / float64(a.done+b.done)
	if math.Abs(share-0.5) > 0.02 {
		t.Errorf("A got %.3f of the CPU, want half", share)
	}
}

// sharedCPU is one CPU that gives all that runs on it an equal part.
type sharedCPU struct {
	*world
	jobs []*job
	last time.Time
	next int // which wake-up counts
}

type job struct {
	left float64
	done func()
}

func (c *sharedCPU) run(seconds float64, done func()) {
	c.sync()
	c.jobs = append(c.jobs, &job{seconds, done})
	c.plan()
}

func (c *sharedCPU) sync() {
	if n := len(c.jobs); n > 0 {
		each := c.now.Sub(c.last).Seconds() / float64(n)
		for _, j := range c.jobs {
			j.left -= each
		}
	}
	c.last = c.now
}

func (c *sharedCPU) plan() {
	c.next++
	if len(c.jobs) == 0 {
		return
	}
	least := c.jobs[0]
	for _, j := range c.jobs {
		if j.left < least.left {
			least = j
		}
	}
	turn := c.next
	wait := time.Duration(math.Ceil(max(0, least.left) * float64(len(c.jobs)) * float64(second)))
	c.after(wait, func() {
		if turn != c.next {
			return
		}
		c.sync()
		for i, j := range c.jobs {
			if j == least {
				c.jobs = append(c.jobs[:i], c.jobs[i+1:]...)
				break
			}
		}
		c.plan()
		least.done()
	})
}

// crowd is a greedy client before a shared CPU.
type crowd struct {
	cpu    *sharedCPU
	client Key
	done   int
	mean   float64 // of what its requests cost: the guess
}

func (c *crowd) send() {
	w := c.cpu.world
	w.ask(Arrival{Client: c.client, Guess: time.Duration(c.mean * float64(second))}, func(t *Ticket) {
		began := w.now
		c.cpu.run(1, func() {
			cost := w.now.Sub(began)
			c.mean += (cost.Seconds() - c.mean) / 10
			w.after(w.Settle(w.now, t, cost), func() {
				w.Leave(w.now, t)
				c.done++
				c.send()
			})
		})
	})
}
