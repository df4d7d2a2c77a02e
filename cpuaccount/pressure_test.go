package cpuaccount

import (
	"math"
	"testing"

	"tempomat/internal/testkit"
)

func TestPressure(t *testing.T) {
	var p Pressure
	for i, r := range []struct {
		at   float64
		text string
		want float64 // negative: no value
	}{
		{0, "some avg10=1.53 avg60=0.87 avg300=0.21 total=1000000\nfull avg10=0 avg60=0 avg300=0 total=0\n", -1},
		{1, "some avg10=1.53 avg60=0.87 avg300=0.21 total=1250000\n", 0.25},
		{2, "some total=9250000", 1},
		{2, "some total=9250000", -1},
		{3, "some total=9250000", 0},
		{4, "some total=1", -1},
		{5, "full avg10=0 total=5", -1},
		{6, "some avg10=0", -1},
		{7, "some total=x", -1},
		{8, "", -1},
		{9, "some total=500001", 0.1},
	} {
		got, ok := p.Sample(at(r.at), []byte(r.text))
		if !ok {
			got = -1
		}
		if !(math.Abs(got-r.want) <= 1e-9) {
			t.Errorf("reading %d: %g, want %g", i, got, r.want)
		}
	}
}

func TestThrottling(t *testing.T) {
	var q Throttling
	for i, r := range []struct {
		text string
		want float64
	}{
		{"usage_usec 5\n", -1},
		{"usage_usec 5\nnr_periods 10\nnr_throttled 4\nthrottled_usec 7\n", -1},
		{"nr_periods 20\nnr_throttled 9\n", 0.5},
		{"nr_periods 20\nnr_throttled 9\n", -1},
		{"nr_periods 30\nnr_throttled 9\n", 0},
		{"nr_periods 35\nnr_throttled 99\n", 1},
		{"nr_periods 3\nnr_throttled 9\n", -1},
		{"nr_periods x\nnr_throttled 9\n", -1},
	} {
		got, ok := q.Sample([]byte(r.text))
		if !ok {
			got = -1
		}
		testkit.Same(t, r.want, got, "reading %d", i)
	}
}

// FuzzPressure checks that the result is a fraction from 0 to 1, whatever the text.
func FuzzPressure(f *testing.F) {
	f.Add([]byte("some avg10=0.00 total=1\n"), []byte("nr_periods 1\nnr_throttled 1\n"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		var p Pressure
		var q Throttling
		p.Sample(at(0), a)
		q.Sample(a)
		if x, ok := p.Sample(at(1), b); ok && !(x >= 0 && x <= 1) {
			t.Errorf("pressure %g", x)
		}
		if x, ok := q.Sample(b); ok && !(x >= 0 && x <= 1) {
			t.Errorf("throttled %g", x)
		}
	})
}
