package telemetry

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"tempomat/classify"
)

// adder is a Sink that adds up weights by status.
type adder struct {
	weight map[int]float64
	kept   int
}

func (a *adder) Take(_ time.Time, entries []Entry) {
	for _, e := range entries {
		a.kept++
		a.weight[e.Status] += e.Weight
	}
}

// TestFeed: what is kept stands for all, whatever there is of it, and the dear are kept
// as long as there is room.
func TestFeed(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		name                         string
		rounds, cheap, dear, refused int
	}{
		{"few", 1, 3, 2, 1}, {"many cheap ones", 20, 5000, 3, 0}, {"more than is kept", 3, 0, 3000, 0},
		{"a flood of refusals", 20, 100, 20, 5000},
	} {
		f, sum := NewFeed(), adder{weight: map[int]float64{}}
		for range c.rounds {
			for i := range c.refused + c.cheap + c.dear {
				r := Record{Arrived: now, Request: &http.Request{Method: "GET", Host: "h", RequestURI: fmt.Sprint("/", i)}, Status: 200}
				r.Who = &classify.Result{Client: netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)})}
				if i < c.refused {
					r.Outcome, r.Status = Refused, 429
				} else if i >= c.refused+c.cheap {
					r.Cost, r.Status = time.Second, 201
				}
				f.Note(now, &r)
			}
			f.Drain(now, &sum)
		}
		for status, n := range map[int]int{200: c.cheap, 201: c.dear, 429: c.refused} {
			want := float64(n * c.rounds)
			if got := sum.weight[status]; got < 0.9*want-1 || got > 1.1*want+1 {
				t.Errorf("%s: %d is said to have come %.0f times, want %.0f", c.name, status, got, want)
			}
		}
		if most := c.rounds * feedShards * mostEntries; sum.kept > most {
			t.Errorf("%s: %d are kept, want %d at most", c.name, sum.kept, most)
		}
	}
}

// dearest is a Sink that adds up what clients cost.
type dearest map[netip.Addr]float64

func (d dearest) Take(_ time.Time, entries []Entry) {
	for _, e := range entries {
		d[e.Client] += (e.Cost - e.Told).Seconds() * e.Weight
	}
}

// TestFeedFloodChangesNobodysCost: who floods the proxy with what costs nothing, and begins
// when nobody expects it, does not multiply what others cost, nor hide it.
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
				f, cost := NewFeed(), dearest{}
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
				for range 20 { // who comes later does not stand for the flood
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

// TestEntryKeepsWhatItIsOf cuts what is long.
func TestEntryKeepsWhatItIsOf(t *testing.T) {
	long := fmt.Sprintf("/%0999d", 7)
	r := Record{Request: &http.Request{Method: "BREW", Host: "h", RequestURI: long}, Who: &classify.Result{}}
	var e Entry
	e.Set(time.Unix(9, 0), &r, 2)
	if e.Target() != long[:mostText] || e.Host() != "h" || e.Method != "" || e.Weight != 2 {
		t.Errorf("%q %q %q %v", e.Target(), e.Host(), e.Method, e.Weight)
	}
}

func BenchmarkFeed(b *testing.B) {
	f := NewFeed()
	now := time.Unix(1_000_000, 0)
	r := Record{Arrived: now, Request: &http.Request{Method: "GET", Host: "site.example", RequestURI: "/w/index.php?title=A&action=history"}, Status: 200, Who: &classify.Result{}}
	none := adder{weight: map[int]float64{}}
	for i := range b.N {
		f.Note(now, &r)
		if i%4000 == 0 {
			f.Drain(now, &none)
		}
	}
}
