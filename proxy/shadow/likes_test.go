package shadow

import (
	"fmt"
	"math"
	"testing"
	"time"

	"tempomat/proxy/telemetry"
)

// seenAs is a request for a page of so many milliseconds, whose worker was worth twice as much.
func seenAs(t *testing.T, client string, ms int, change func(r *telemetry.Record)) *seen {
	t.Helper()
	var s seen
	q := requestOf(&asked{client: client, target: fmt.Sprintf("/page?ms=%d", ms)})
	classes(t).Classify(q, &s.who)
	who, took := s.who, time.Duration(ms)*time.Millisecond
	r := &telemetry.Record{
		Arrived: noon, Request: q, Who: &who, Status: 200, Asked: true,
		CPU: took, Cost: 2 * took, Guess: 2 * took, Stay: 20 * time.Second, Idle: 20 * time.Second, Exact: true,
	}
	change(r)
	s.set(r, false)
	return &s
}

// TestWhatItsLikeUsed: a crawl's pages and people's are of one shape, and cost 400 and 20 ms; the worker that
// they hold is worth twice as much. Of whom it is not known what they used, or would have used, they are taken to use
// what their like did, and not what was guessed, a share of the sum, or the mean of the shape.
func TestWhatItsLikeUsed(t *testing.T) {
	var c costs
	for i := range 60 {
		c.of(seenAs(t, fmt.Sprintf("192.0.2.%d", i%20), 20, func(*telemetry.Record) {}), true)
		c.of(seenAs(t, "198.51.100.1", 400, func(*telemetry.Record) {}), true)
	}
	for name, estimate := range map[string]func(client string, ms int) time.Duration{
		"its client left": func(client string, ms int) time.Duration {
			used, _ := c.of(seenAs(t, client, ms, func(r *telemetry.Record) { r.Outcome, r.CPU = telemetry.ClientGone, 0 }), true)
			return used
		},
		"seen in a crowd only": func(client string, ms int) time.Duration {
			used, _ := c.of(seenAs(t, client, ms, func(r *telemetry.Record) { r.Exact, r.CPU = false, 90*time.Millisecond }), true)
			return used
		},
		"it was turned away": func(client string, ms int) time.Duration {
			return c.unserved(seenAs(t, client, ms, func(r *telemetry.Record) { r.Outcome, r.Stay = telemetry.Refused, 0 }))
		},
	} {
		for client, ms := range map[string]int{"192.0.2.7": 20, "198.51.100.1": 400} {
			if used := estimate(client, ms).Seconds() * 1000; math.Abs(used-float64(ms)) > float64(ms)/10 {
				t.Errorf("%s: %s would use %.0f ms, want %d", name, client, used, ms)
			}
		}
	}
}

// TestNothingIsKnownOfTheLike: then the guess counts, by as much less as guesses were too high.
func TestNothingIsKnownOfTheLike(t *testing.T) {
	var c costs
	gone := func(client string) time.Duration {
		used, _ := c.of(seenAs(t, client, 100, func(r *telemetry.Record) { r.Outcome, r.CPU = telemetry.ClientGone, 0 }), true)
		return used
	}
	if used := gone("192.0.2.1"); used != 200*time.Millisecond {
		t.Errorf("of nobody it is known: %s", used)
	}
	c.of(seenAs(t, "192.0.2.1", 50, func(*telemetry.Record) {}), true)
	if used := gone("192.0.2.2"); used != 100*time.Millisecond {
		t.Errorf("of one it is, which used half of what was guessed: %s", used)
	}
}

// TestWhoIsErraticDeceivesNobodyElse: a client whose requests use nothing nine times in ten, and much the tenth, does not
// make those of others look cheap.
func TestWhoIsErraticDeceivesNobodyElse(t *testing.T) {
	var c costs
	for i := range 400 {
		c.of(seenAs(t, fmt.Sprintf("192.0.2.%d", i%20), 100, func(*telemetry.Record) {}), true)
		used := 0
		if i%10 == 9 {
			used = 10_000
		}
		c.of(seenAs(t, "203.0.113.1", used, func(r *telemetry.Record) { r.Request.RequestURI = "/erratic" }), true)
	}
	used, _ := c.of(seenAs(t, "192.0.2.7", 100, func(r *telemetry.Record) { r.Outcome, r.CPU = telemetry.ClientGone, 0 }), true)
	if math.Abs(used.Seconds()-0.1) > 0.01 {
		t.Errorf("a page of 100 ms would use %s", used)
	}
}
