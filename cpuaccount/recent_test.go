package cpuaccount

import (
	"testing"
	"time"
)

// TestRecent: told is what the last minute brought, and nothing of another Meter's.
func TestRecent(t *testing.T) {
	var r Recent
	at := func(n int) (time.Time, Sums) {
		return time.Unix(int64(n), 0), Sums{Process: time.Duration(n) * time.Second, Requests: Requests{Process: uint64(2 * n)}}
	}
	if s, d := r.Lately(at(5)); s != (Sums{}) || d != 0 {
		t.Errorf("with nothing noted: %+v in %v", s, d)
	}
	for n := range 300 {
		now, sums := at(n)
		r.Note(now, sums)
		s, d := r.Lately(now, sums)
		seconds := int(d / time.Second)
		if want := n; n < 60 && seconds != want || n >= 70 && (seconds < 60 || seconds >= 70) {
			t.Fatalf("after %d s it is of %v", n, d)
		}
		if s.Process != d || s.Requests.Process != uint64(2*seconds) || s.Estimated != 0 {
			t.Fatalf("after %d s: %+v in %v", n, s, d)
		}
	}
	now, _ := at(300)
	if s, d := r.Lately(now, Sums{Process: time.Second}); s != (Sums{}) || d != 0 {
		t.Errorf("another Meter's, before it was noted: %+v in %v", s, d)
	}
	r.Note(now, Sums{Process: time.Second})
	if s, d := r.Lately(now.Add(time.Second), Sums{Process: 3 * time.Second}); s.Process != 2*time.Second || d != time.Second {
		t.Errorf("another Meter's: %+v in %v", s, d)
	}
}
