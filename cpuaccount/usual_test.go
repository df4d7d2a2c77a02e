package cpuaccount

import (
	"slices"
	"testing"
	"time"
)

// serve has pages of that many CPU-seconds come one after the other for half a second, beside
// all that is there, and then corrects the meter. It returns what each was charged with on the mean.
func (m *machine) serve(cost, known float64) (charged float64) {
	since, end, n := at(m.now), m.now+0.5, 0.
	computing := 1.
	for _, s := range m.spans {
		computing += m.truth[s]
	}
	speed := min(1, m.cpus/computing)
	for m.now < end {
		page := m.begin(1)
		m.now += cost / speed
		charged += m.end(page).Seconds()
		page.Compare(time.Duration(known * float64(time.Second)))
		n++
	}
	m.look()
	m.meter.Correct(at(m.now), since, Use{CPUs: min(computing, m.cpus) / m.cpus, Own: -1, Lacked: -1}, slices.Values(m.spans))
	return charged / n
}

// look has a moment pass, in which all that is there is looked at.
func (m *machine) look() {
	m.now += 0.001
	for _, s := range m.spans {
		s.SoFar(at(m.now))
	}
}

// waiters are some that have waited for long while the CPUs were idle.
func (m *machine) waiters(n int) (all []*Span) {
	for range n {
		all = append(all, m.begin(0))
	}
	for range 20 {
		m.pass()
	}
	return all
}

func (m *machine) compute(all []*Span) {
	for _, s := range all {
		m.truth[s] = 1
	}
}

func computing(all []*Span) (n int) {
	for _, s := range all {
		if s.Computes() {
			n++
		}
	}
	return n
}

// TestPagesOfAKnownCostTellWhoComputes: twenty that waited begin to compute. Once the CPUs are full
// their use tells no more, but pages that take twenty times as long do, and are charged with
// what they cost soon.
func TestPagesOfAKnownCostTellWhoComputes(t *testing.T) {
	m := newMachine(2, 0)
	all := m.waiters(20)
	if n := computing(all); n > 0 {
		t.Fatalf("%d of those that wait are taken to compute", n)
	}
	m.compute(all)
	for range 8 {
		m.serve(0.02, 0.02)
	}
	if n := computing(all); n < 20 {
		t.Errorf("%d of 20 are taken to compute", n)
	}
	if x := m.serve(0.02, 0.02); x > 0.02*muchDearer {
		t.Errorf("a page of 20 ms is charged with %.3f s", x)
	}
}

// TestWaitsForCPUsTellWhoComputes: twenty that waited begin to compute, and nobody asks for a page of a known
// cost. If it is known for how long they wanted a CPU, they are taken to compute; not if they hardly did.
func TestWaitsForCPUsTellWhoComputes(t *testing.T) {
	for lacked, want := range map[float64]int{-1: 0, 0: 0, 18 * 0.5: 20} {
		m := newMachine(2, 0)
		all := m.waiters(20)
		m.compute(all)
		for range 4 {
			since := at(m.now)
			m.now += 0.499
			m.look()
			m.meter.Correct(at(m.now), since, Use{CPUs: 1, Own: 1, Lacked: lacked}, slices.Values(m.spans))
		}
		if n := computing(all); n != want {
			t.Errorf("they waited for CPUs for %g s: %d of 20 are taken to compute, want %d", lacked, n, want)
		}
	}
}

// TestWhatPagesDoNotTell: a cost that is somewhat higher than usual, too few pages, pages of another
// source, or a CPU that is idle tell nothing of who waits.
func TestWhatPagesDoNotTell(t *testing.T) {
	for name, c := range map[string]struct {
		source      Source
		cost, known float64
		beside      int // that compute
		want        int // of ten that wait, are taken to compute
	}{
		"much dearer":                 {Corrected, 0.02, 0.004, 4, 10},
		"somewhat dearer":             {Corrected, 0.02, 0.016, 8, 0},
		"much dearer, and a CPU idle": {Corrected, 0.02, 0.004, 0, 0},
		"too few":                     {Corrected, 0.4, 0.0005, 4, 0},
		"wall time":                   {Wall, 0.02, 0.004, 4, 10}, // nothing is ever taken to wait there
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(2, 0)
			m.meter.source = c.source
			all := m.waiters(10)
			for range c.beside {
				m.begin(1)
			}
			m.look() // so that each knows of all others
			for range 10 {
				m.serve(c.cost, c.known)
			}
			if n := computing(all); n != c.want {
				t.Errorf("%d are taken to compute, want %d", n, c.want)
			}
		})
	}
}

// TestWhatBeganBeforeTellsNothing: what was charged by a crowd that has been corrected since would
// have that corrected twice.
func TestWhatBeganBeforeTellsNothing(t *testing.T) {
	m := newMachine(2, 0)
	old := m.begin(1)
	m.now++
	m.meter.usual.forget()
	m.end(old)
	old.Compare(time.Millisecond)
	if u := &m.meter.usual; u.cost.Load() != 0 || u.charged.Load() != 0 {
		t.Error("it was compared")
	}
	m.now++
	young := m.begin(1)
	m.now++
	young.Compare(time.Millisecond)
	if m.meter.usual.cost.Load() != 0 {
		t.Error("it has not ended, and was compared")
	}
	m.end(young)
	if young.Compare(time.Millisecond); m.meter.usual.cost.Load() != int64(time.Millisecond) || m.meter.usual.charged.Load() != int64(time.Second) {
		t.Errorf("compared: %d ns with %d", m.meter.usual.charged.Load(), m.meter.usual.cost.Load())
	}
}
