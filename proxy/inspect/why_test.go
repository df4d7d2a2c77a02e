package inspect

import (
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// TestWhy checks the words for each barrier.
func TestWhy(t *testing.T) {
	key := limiter.Key{Class: "slash32", ID: "192.0.2.1"}
	for want, o := range map[string]limiter.Outlook{
		"slash32 192.0.2.1 owes CPU time; the debt is paid in about 1.5 s":                  {Barrier: limiter.Owes, Key: key, Paid: 1500 * time.Millisecond},
		"1 request of the same client goes first":                                           {Barrier: limiter.BehindOwn, Have: 1},
		"2 requests of the same client go first":                                            {Barrier: limiter.BehindOwn, Have: 2},
		"slash32 192.0.2.1 holds its part of the workers: 5 of 6":                           {Barrier: limiter.KeyHolds, Key: key, Have: 5, Most: 6},
		"strangers hold their part of the workers: 5 of 6":                                  {Barrier: limiter.StrangersHold, Have: 5, Most: 6},
		"requests that turned out to be long hold the workers that are kept for short ones": {Barrier: limiter.Misjudged},
		"the site others has had its share of the CPUs, and other sites go first":           {Barrier: limiter.SiteAhead},
		"the CPUs are busy: 2 of at most 3 requests of up to 400 ms are computing":          {Barrier: limiter.NoRoom, Size: 400 * time.Millisecond, Have: 2, Most: 3},
		"the CPUs are busy: 2 of at most 3 requests of any size are computing":              {Barrier: limiter.NoRoom, Have: 2, Most: 3},
		"its client has used 1.5 CPU-seconds more than its share, and the free CPUs are kept for clients that used less: 2 of at most 3 requests of up to 1.6 s are computing": {Barrier: limiter.RoomForOthers, Lead: 1.5, Have: 2, Most: 3, Size: 1600 * time.Millisecond},
		"the free workers are kept for shorter requests: 5 of 6 are held by requests that are as long or longer":                                                               {Barrier: limiter.NoWorker, Have: 5, Most: 6},
		"the free workers are kept for shorter requests: 6 of 6 are held by requests that are as long or longer":                                                               {Barrier: limiter.NoWorker, Have: 6, Most: 6, Size: lightest + 1},
		"all workers are busy: 6 of 6": {Barrier: limiter.NoWorker, Have: 6, Most: 6, Size: lightest},
		"the cost of its page is unknown, and such requests are tried one at a time": {Barrier: limiter.CostUnknown},
		"strangers share one turn, and other requests leave no CPU for a long one":   {Barrier: limiter.LeavesCPU, Stranger: true},
		"strangers share one turn, and other strangers go first":                     {Barrier: limiter.Turn, Stranger: true},
		"clients that used less, or came earlier, go first":                          {Barrier: limiter.Turn},
		"": {},
	} {
		if got, _ := reason(&o); got != want {
			t.Errorf("%d: %q, want %q", o.Barrier, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		25 * time.Millisecond: "25 ms", time.Second - 1: "1000 ms", time.Second: "1.0 s", 99 * time.Second: "99.0 s",
		100 * time.Second: "2 min", 99 * time.Minute: "99 min", 100 * time.Minute: "2 h", 36 * time.Hour: "36 h",
	} {
		testkit.Same(t, want, spanOf(d), "%v", d)
	}
}
