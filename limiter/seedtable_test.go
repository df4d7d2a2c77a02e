package limiter

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// TestSeedTable checks the table in the original's README: an address may use one CPU-second per second. It
// keeps the given number of requests in progress, each of which costs one CPU-second.
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
				w.run(10 * second) // until the averages are stable
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

// greedy is a client that sends its next request as soon as the previous one is answered. The server has room
// for all requests.
type greedy struct {
	*world
	client         Key
	service, guess time.Duration
	answered       int
	waited         time.Duration
}

func (c *greedy) send() {
	sent := c.now
	c.ask(Arrival{Client: c.client, Guess: c.guess}, func(t *Ticket) {
		if t.Verdict().Refused() {
			c.Leave(c.now, t)
			c.after(t.Verdict().Wait, c.send)
			return
		}
		c.after(c.service, func() {
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
