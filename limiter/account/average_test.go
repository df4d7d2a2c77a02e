package account

import (
	"math"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestAverageIsOfTheLatest: the wait is the average over the first ten requests; each later request moves it by
// a tenth. CPU time and requests are rates.
func TestAverageIsOfTheLatest(t *testing.T) {
	var a average
	for i := range mostLatest {
		a.note(time.Hour, 3, float32(i))
	}
	close := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-5 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	close("the wait of ten requests", float64(a.wait), 4.5)
	a.note(time.Hour, 0, 14.5)
	close("the wait after one more request", float64(a.wait), 5.5)
	close("the rate of requests", float64(a.reqs), 11./30)
	close("the rate of costs", float64(a.cpu), 1)
	a.note(time.Hour-time.Minute, 0, 5.5) // this request began earlier and ended later
	testkit.Same(t, time.Hour, a.last, "the time of the latest request")
	var s State
	a.fill(&s, time.Hour+recent)
	close("the rate half a minute later", s.Requests, 12./30/math.E)
	close("the costs", s.CPU, 1/math.E)
	close("the wait", s.Wait, 5.5)
	close("the time since the latest request", s.Idle.Seconds(), 30)
	later := a
	later.note(time.Hour+recent, 30, 5.5)
	close("the rate after a later request", float64(later.reqs), (12/math.E+1)/30)
	close("the costs", float64(later.cpu), 1/math.E+1)
	testkit.Same(t, time.Hour+recent, later.last, "the time of the latest request")
	if a.fill(&s, 0); s.Idle != 0 || math.Abs(s.CPU-1) > 1e-5 {
		t.Errorf("at an earlier time: %v passed and %v was used", s.Idle, s.CPU)
	}
}
