package telemetry

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"tempomat/classify"
	"tempomat/internal/testkit"
)

// adder is a Sink that adds up the counts, and the weights by status.
type adder struct {
	weight map[int]float64
	cost   map[int]float64 // CPU-seconds, with the weights
	kept   int
	sums   Sums
}

func newAdder() *adder { return &adder{weight: map[int]float64{}, cost: map[int]float64{}} }

func (a *adder) Take(_ time.Time, b *Batch) {
	for _, e := range b.Entries {
		a.kept++
		a.weight[e.Status] += e.Weight
		a.cost[e.Status] += e.Weight * e.Cost.Seconds()
	}
	for g := range b.Sums {
		a.sums.Add(&b.Sums[g])
	}
}

// TestFeed: the sample represents each kind of request correctly, and all requests are counted. When a flood
// begins, a few expensive requests still don't count as many.
func TestFeed(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		name                         string
		rounds, cheap, dear, refused int
		addresses                    int
	}{
		{"few", 1, 3, 2, 1, 1 << 16}, {"many cheap ones", 20, 5000, 3, 0, 1 << 16}, {"more than is kept", 3, 0, 3000, 0, 1 << 16},
		{"a flood of refusals", 20, 100, 20, 5000, 1 << 16}, {"a flood from one address", 1, 1250, 1, 0, 1},
		{"a flood after silence", 1, 5000, 3, 700, 1 << 16},
	} {
		f, sum := NewCounts(), newAdder()
		for range c.rounds {
			for i := range c.refused + c.cheap + c.dear {
				r := Record{Arrived: now, Request: &http.Request{Method: "GET", Host: "h", RequestURI: fmt.Sprint("/", i)}, Status: 200}
				client := i % c.addresses
				r.Who = &classify.Result{Client: netip.AddrFrom4([4]byte{192, 0, byte(client >> 8), byte(client)})}
				r.Cost = 2 * time.Millisecond
				if i < c.refused {
					r.Outcome, r.Status, r.Cost = Refused, 429, 0
				} else if i >= c.refused+c.cheap {
					r.Cost, r.Status = time.Second, 201
				}
				f.Note(now, &r)
			}
			f.Drain(now, sum)
			f.Drain(now, sum) // there are no more requests
		}
		for status, n := range map[int]int{200: c.cheap, 201: c.dear, 429: c.refused} {
			want := float64(n * c.rounds)
			if got := sum.weight[status]; math.Abs(got-want) > 1e-6*want {
				t.Errorf("%s: %d is said to have come %v times, want %v", c.name, status, got, want)
			}
		}
		if got, want := sum.cost[201], float64(c.dear*c.rounds); math.Abs(got-want) > 1e-6*want {
			t.Errorf("%s: the expensive ones are said to have cost %v, want %v", c.name, got, want)
		}
		n := func(each int) uint64 { return uint64(c.rounds * each) }
		all := Sums{
			Ended: [Outcomes]uint64{Answered: n(c.cheap + c.dear), Refused: n(c.refused)}, Refused: [Refusals]uint64{Unsound: n(c.refused)},
			Cost: time.Duration(c.rounds) * (time.Duration(c.cheap)*2*time.Millisecond + time.Duration(c.dear)*time.Second),
		}
		testkit.Same(t, all, sum.sums, "%s: counted", c.name)
		if most := c.rounds * mostShards * 2 * ((perGroup-1)*mostCheap + mostExpensive); sum.kept > most {
			t.Errorf("%s: %d are kept, want %d at most", c.name, sum.kept, most)
		}
	}
}

// dearest is a Sink that adds up the cost of each client.
type dearest map[netip.Addr]float64

func (d dearest) Take(_ time.Time, b *Batch) {
	for _, e := range b.Entries {
		d[e.Client] += (e.Cost - e.Told).Seconds() * e.Weight
	}
}

// TestFeedFloodChangesNobodysCost: a flood of free requests, however it begins, neither multiplies nor hides
// the cost of other clients.
func TestFeedFloodChangesNobodysCost(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	page := &http.Request{Method: "GET", Host: "h", RequestURI: "/"}
	flood := map[string]Record{
		"of answers":              {Cost: time.Microsecond},
		"of refusals":             {Outcome: Refused},
		"of answers that waited":  {Cost: time.Microsecond, Held: time.Second},
		"of refusals that waited": {Outcome: Refused, Held: time.Second},
	}
	victim := netip.MustParseAddr("192.0.2.1")
	for name, cheap := range flood {
		for _, v := range []Record{{Cost: 2 * time.Second}, {Cost: 10 * time.Millisecond, Told: 5 * time.Second}} {
			for _, first := range []bool{true, false} {
				f, cost := NewCounts(), dearest{}
				v.Arrived, v.Request, v.Who = now, page, &classify.Result{Client: victim}
				if first {
					f.Note(now, &v)
				}
				for i := range 50_000 {
					cheap.Arrived, cheap.Request = now, page
					cheap.Who = &classify.Result{Client: netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)})}
					f.Note(now, &cheap)
				}
				if !first {
					f.Note(now, &v)
				}
				f.Drain(now, cost)
				after := Record{Arrived: now, Request: page, Cost: 40 * time.Millisecond, Who: &classify.Result{Client: netip.MustParseAddr("203.0.113.1")}}
				for range 20 { // later requests don't represent the flood
					f.Note(now, &after)
					f.Drain(now, cost)
				}
				if got := cost[after.Who.Client]; got > 0.81 {
					t.Errorf("a flood %s: who cost 0.8 after it is said to have cost %v", name, got)
				}
				if got, want := cost[victim], (v.Cost - v.Told).Seconds(); math.Abs(got-want) > 1e-6 {
					t.Errorf("a flood %s: who cost %v is said to have cost %v (first: %v)", name, want, got, first)
				}
			}
		}
	}
}

// TestFeedIsFair: if pages come in turns, as when a page and its parts are loaded repeatedly, the sample
// contains each as often as it came, whatever the length of a turn.
func TestFeedIsFair(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, turn := range []int{2, 3, 7, 8} {
		const rounds, each = 200, 1024
		f, sum := NewCounts(), newAdder()
		for range rounds {
			for i := range each {
				r := Record{Arrived: now, Request: &http.Request{Method: "GET"}, Who: new(classify.Result), Status: i % turn}
				f.Note(now, &r)
			}
			f.Drain(now, sum)
		}
		for page, got := range sum.weight {
			if want := float64(rounds*each) / float64(turn); math.Abs(got-want) > 0.2*want {
				t.Errorf("%d of %d pages is said to have come %.0f times, want %.0f", page, turn, got, want)
			}
		}
	}
}

// TestEntryKeepsWhatItIsOf: an Entry keeps the beginning of long texts.
func TestEntryKeepsWhatItIsOf(t *testing.T) {
	long := fmt.Sprintf("/%0999d", 7)
	r := Record{Request: &http.Request{Method: "BREW", Host: "h", RequestURI: long}, Who: &classify.Result{}}
	var e Entry
	e.Set(time.Unix(9, 0), &r)
	if e.Target() != long[:mostText] || e.Host() != "h" || e.Method != "" || e.Weight != 1 {
		t.Errorf("%q %q %q %v", e.Target(), e.Host(), e.Method, e.Weight)
	}
}

// TestFeedTakenMeanwhile: whenever the sample is taken, it represents all requests, and all of them are counted.
func TestFeedTakenMeanwhile(t *testing.T) {
	const each, goers = 4000, 4
	now, f, sum := time.Unix(1_000_000, 0), NewCounts(), newAdder()
	var all sync.WaitGroup
	for range goers {
		all.Go(func() {
			for i := range each {
				f.Note(now, &Record{
					Arrived: now, Request: &http.Request{Method: "GET"}, Who: new(classify.Result), Status: 200, Cost: time.Duration(i%3) * time.Millisecond,
				})
			}
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	for over := false; !over; {
		over = testkit.Ready(ended)
		f.Drain(now, sum)
	}
	if got := sum.weight[200]; math.Abs(got-each*goers) > 1e-6 || sum.sums.Requests() != each*goers {
		t.Errorf("%v are stood for, %d counted, want %d", got, sum.sums.Requests(), each*goers)
	}
}
