package inspect

import (
	"testing"
	"time"

	"tempomat/limiter"
)

// TestWhy: what is told to people of each barrier.
func TestWhy(t *testing.T) {
	key := limiter.Key{Class: "slash32", ID: "192.0.2.1"}
	for want, o := range map[string]limiter.Outlook{
		"slash32 192.0.2.1 owes CPU time; its debt is paid in about 1.5 s":                                                                           {Barrier: limiter.Owes, Key: key, Paid: 1500 * time.Millisecond},
		"one of its client's own requests of its size goes first":                                                                                    {Barrier: limiter.BehindOwn, Have: 1},
		"2 of its client's own requests of its size go first":                                                                                        {Barrier: limiter.BehindOwn, Have: 2},
		"slash32 192.0.2.1 holds its part of the workers: 5 of 6":                                                                                    {Barrier: limiter.KeyHolds, Key: key, Have: 5, Most: 6},
		"strangers hold their part of the workers: 5 of 6":                                                                                           {Barrier: limiter.StrangersHold, Have: 5, Most: 6},
		"requests that came as short ones, and are not, hold the workers that are kept for short ones":                                               {Barrier: limiter.Misjudged},
		"what is no named site has had its share of the CPUs, and leaves room to the other sites":                                                    {Barrier: limiter.SiteAhead},
		"as many requests of up to 400 ms compute as may: 2 of 3":                                                                                    {Barrier: limiter.NoRoom, Size: 400 * time.Millisecond, Have: 2, Most: 3},
		"as many requests of any size compute as may: 2 of 3":                                                                                        {Barrier: limiter.NoRoom, Have: 2, Most: 3},
		"its client has had 1.5 CPU-seconds more than its share, and the room that is left is for those who had less: 2 of 3 compute of up to 1.6 s": {Barrier: limiter.RoomForOthers, Lead: 1.5, Have: 2, Most: 3, Size: 1600 * time.Millisecond},
		"the workers that are left are kept for shorter requests: 5 of 6 are held as long or longer":                                                 {Barrier: limiter.NoWorker, Have: 5, Most: 6},
		"the workers that are left are kept for shorter requests: 6 of 6 are held as long or longer":                                                 {Barrier: limiter.NoWorker, Have: 6, Most: 6, Size: lightest + 1},
		"all workers are busy: 6 of 6":                                                                                                               {Barrier: limiter.NoWorker, Have: 6, Most: 6, Size: lightest},
		"the cost of its page is unknown, and only one such request is tried at a time":                                                              {Barrier: limiter.Untried},
		"strangers share one turn, and what others use leaves no CPU for a long request":                                                             {Barrier: limiter.LeavesCPU, Stranger: true},
		"strangers share one turn, and others of them go first":                                                                                      {Barrier: limiter.Turn, Stranger: true},
		"others go first, who had less or came earlier":                                                                                              {Barrier: limiter.Turn},
		"": {},
	} {
		if got := why(&o); got != want {
			t.Errorf("%d: %q, want %q", o.Barrier, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		25 * time.Millisecond: "25 ms", time.Second - 1: "1000 ms", time.Second: "1.0 s", 99 * time.Second: "99.0 s",
		100 * time.Second: "2 min", 99 * time.Minute: "99 min", 100 * time.Minute: "2 h", 36 * time.Hour: "36 h",
	} {
		if got := spanOf(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
