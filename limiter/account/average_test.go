package account

import (
	"math"
	"testing"
	"time"
)

// TestAverageFades: by a factor e in half a minute, the same for keys that are busy and for those
// that are not; time that runs backwards changes nothing.
func TestAverageFades(t *testing.T) {
	for _, ago := range []time.Duration{-recent, 0, 1, recent / 100, recent / 17, recent / 16, recent / 15, recent, 5 * recent} {
		a := average{last: time.Hour}
		want := math.Exp(-max(0, float64(ago)/float64(recent)))
		if got := a.decay(time.Hour + ago); math.Abs(float64(got)-want) > 1e-6 {
			t.Errorf("after %v %v are left, want %v", ago, got, want)
		}
	}
}

// TestAverageIsOfTheLatest: the wait is the average of the first ten, and then a tenth each; costs
// and requests are rates.
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
	close("the wait of ten", float64(a.wait), 4.5)
	a.note(time.Hour, 0, 14.5)
	close("the wait after one more", float64(a.wait), 5.5)
	close("the rate of requests", float64(a.reqs), 11./30)
	close("that of costs", float64(a.cpu), 1)
	a.note(time.Hour-time.Minute, 0, 5.5) // it began before, and ended later
	if a.last != time.Hour {
		t.Errorf("the latest was at %v", a.last)
	}
	var s State
	a.fill(&s, time.Hour+recent)
	close("half a minute later, the rate", s.Requests, 12./30/math.E)
	close("the costs", s.CPU, 1/math.E)
	close("the wait", s.Wait, 5.5)
	close("the time since", s.Idle.Seconds(), 30)
	later := a
	later.note(time.Hour+recent, 30, 5.5)
	close("a note later, the rate", float64(later.reqs), (12/math.E+1)/30)
	close("the costs", float64(later.cpu), 1/math.E+1)
	if later.last != time.Hour+recent {
		t.Errorf("the latest was at %v", later.last)
	}
	if a.fill(&s, 0); s.Idle != 0 || math.Abs(s.CPU-1) > 1e-5 {
		t.Errorf("before it, %v have passed, and %v is used", s.Idle, s.CPU)
	}
}
