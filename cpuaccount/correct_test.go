package cpuaccount

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/internal/testkit"
)

// machine is a backend whose true CPU use is known. Each request computes during a part of its time, at the speed
// of one CPU, or more slowly if there are too few CPUs.
type machine struct {
	meter *Meter
	cpus  float64
	now   float64
	spans []*Span
	truth map[*Span]float64 // the part of its time in which a request computes
	used  map[*Span]float64 // CPU-seconds
}

func newMachine(cpus, workers float64) *machine {
	meter := NewMeter(Corrected, cpus)
	meter.SetWorkers(workers)
	return &machine{meter: meter, cpus: cpus, truth: map[*Span]float64{}, used: map[*Span]float64{}}
}

func (m *machine) begin(truth float64) *Span {
	s := new(Span)
	m.meter.Begin(at(m.now), s)
	m.spans = append(m.spans, s)
	m.truth[s] = truth
	return s
}

func (m *machine) end(s *Span) time.Duration {
	m.spans = slices.DeleteFunc(m.spans, func(o *Span) bool { return o == s })
	return s.end(at(m.now))
}

// pass lets half a second pass, and calls Correct.
func (m *machine) pass() {
	const step = 0.5
	sum := 0.0
	for _, s := range m.spans {
		sum += m.truth[s]
	}
	speed := 1.0
	if sum > m.cpus {
		speed = m.cpus / sum
	}
	for _, s := range m.spans {
		m.used[s] += m.truth[s] * speed * step
	}
	since := at(m.now)
	m.now += step
	for _, s := range m.spans {
		s.SoFar(at(m.now))
	}
	m.meter.Correct(at(m.now), since, Use{CPUs: min(sum, m.cpus) / m.cpus, Own: -1, Lacked: -1}, slices.Values(m.spans))
}

// TestLongPollsDifferFromComputing: ten requests wait for 25 s while one computes for half of the time. The
// CPU use shows that the ten do nothing.
func TestLongPollsDifferFromComputing(t *testing.T) {
	m := newMachine(2, 16)
	var polls []*Span
	for range 10 {
		polls = append(polls, m.begin(0))
	}
	for i := range 50 {
		if i%2 == 0 {
			page := m.begin(1)
			m.pass()
			m.end(page)
		} else {
			m.pass()
		}
	}
	for _, s := range polls {
		if s.Computes() {
			t.Error("a long poll counts as computing")
		}
		if idle := s.Idle(); idle < 20*time.Second {
			t.Errorf("a poll of 25 s was idle for %s", idle)
		}
		// A worker is an eighth of a CPU here.
		if cost := m.end(s).Seconds(); cost < 3.1 || cost > 3.5 {
			t.Errorf("a poll of 25 s cost %.2f, want 25/8", cost)
		}
	}
}

// TestComputingRequestsStaySo: two requests use both CPUs, alone and next to polls that were there before.
func TestComputingRequestsStaySo(t *testing.T) {
	m := newMachine(2, 16)
	a, b := m.begin(1), m.begin(1)
	for range 10 {
		s := m.begin(0)
		s.Assume(0)
	}
	for range 10 {
		m.pass()
	}
	for _, s := range []*Span{a, b} {
		if !s.Computes() {
			t.Error("a request that computes all the time counts as waiting")
		}
		if cost := m.end(s).Seconds(); cost < 4.4 || cost > 5 {
			t.Errorf("5 s on a CPU cost %.2f", cost)
		}
	}
}

// TestWaitsThenComputes: a request that first waited and then computes is recognised.
func TestWaitsThenComputes(t *testing.T) {
	m := newMachine(2, 0)
	s := m.begin(0)
	for range 10 {
		m.pass()
	}
	if s.Computes() {
		t.Error("it doesn't count as computing yet")
	}
	m.truth[s] = 1
	for range 4 {
		m.pass()
	}
	if !s.Computes() {
		t.Error("it computes now")
	}
}

// TestFullCPUsTellNothing: no request's weight changes while all CPUs are used, or without a measurement.
func TestFullCPUsTellNothing(t *testing.T) {
	m := newMachine(2, 16)
	for range 4 {
		m.begin(1)
	}
	poll := m.begin(0)
	for range 20 {
		m.pass()
	}
	if !poll.Computes() {
		t.Error("a poll can't be distinguished from pages while they use all CPUs")
	}
	m.meter.Correct(at(m.now), at(m.now), Use{Own: -1, Lacked: -1}, slices.Values(m.spans))
	if !poll.Computes() {
		t.Error("no time has passed")
	}
}

// TestChargedIsMeasured checks that the sum of the charges converges on the measured use for any set of requests
// that stay, and that no cost is ever below zero or above the time that has passed.
func TestChargedIsMeasured(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cpus := float64(rapid.IntRange(1, 4).Draw(t, "cpus"))
		m := newMachine(cpus, 0)
		for i := range rapid.IntRange(1, 8).Draw(t, "requests") {
			m.begin(rapid.Float64Range(0, 1).Draw(t, fmt.Sprint("truth ", i)))
		}
		sum := 0.0
		for _, x := range m.truth {
			sum += x
		}
		for range 40 {
			m.pass()
		}
		before, used := time.Duration(0), 0.0
		for _, s := range m.spans {
			before += s.SoFar(at(m.now))
			used -= m.used[s]
		}
		for range 10 {
			m.pass()
		}
		var charged time.Duration
		for _, s := range m.spans {
			x := s.SoFar(at(m.now))
			charged += x
			used += m.used[s]
			if x < 0 || x.Seconds() > m.now+1e-6 {
				t.Fatalf("a cost of %s after %.1f s", x, m.now)
			}
		}
		got := (charged - before).Seconds()
		if got < used/tooLittle-5*slack-0.05 || got > used*tooMuch+10*slack+0.05+0.02*5*float64(len(m.spans)) {
			t.Fatalf("charged %.2f, used %.2f", got, used)
		}
	})
}

// TestPausedSpansAreNotCorrected: while a request waits for its client, the CPU use shows nothing about it.
func TestPausedSpansAreNotCorrected(t *testing.T) {
	m := newMachine(2, 16)
	paused := m.begin(0)
	m.begin(0)
	paused.Pause(at(m.now))
	for range 20 {
		m.pass()
	}
	paused.Resume(at(m.now))
	if !paused.Computes() {
		t.Error("a request that waited for its client counts as waiting for something else")
	}
}

// TestUnusedTimeIsNotCharged: whichever requests have come and gone since the last measurement, the requests that
// are still present aren't charged more for that time than the CPU time used (by the backend itself, if known),
// except by chance. Earlier charges stay.
func TestUnusedTimeIsNotCharged(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		m := newMachine(1+3*random.Float64(), 0)
		var before []float64
		look := func() {
			before = before[:0]
			for _, s := range m.spans {
				before = append(before, s.SoFar(at(m.now)).Seconds())
			}
		}
		for range 10 {
			look()
			since := at(m.now)
			for range random.IntN(6) {
				m.begin(random.Float64())
				before = append(before, 0)
				m.now += 0.1
			}
			m.now += 0.3
			use := Use{CPUs: 1, Own: m.meter.cpus * random.Float64() * at(m.now).Sub(since).Seconds()}
			if random.IntN(2) == 0 {
				use = Use{CPUs: random.Float64(), Own: -1, Lacked: -1}
			}
			m.meter.Correct(at(m.now), since, use, slices.Values(m.spans))
			passed := at(m.now).Sub(since).Seconds()
			used, charged := use.Own, 0.0
			if used < 0 {
				used = use.CPUs * m.meter.cpus * passed
			}
			for i, s := range m.spans {
				more := s.SoFar(at(m.now)).Seconds() - before[i]
				if charged += more; more < -1e-6 {
					t.Fatalf("%.3f s of earlier charges are taken back", -more)
				}
			}
			if most := tooMuch*used + slack*passed; charged > most+1e-6 {
				t.Fatalf("%.3f s are charged, but %.3f s were used", charged, used)
			}
		}
	}
}

// TestWaitsForCPUsShowComputing: twenty requests that waited begin to compute. They count as computing if they are
// known to have waited long for a CPU, but not if they hardly waited for one.
func TestWaitsForCPUsShowComputing(t *testing.T) {
	for lacked, want := range map[float64]int{-1: 0, 0: 0, 18 * 0.5: 20} {
		m := newMachine(2, 0)
		for range 20 {
			m.begin(0)
		}
		for range 20 {
			m.pass()
		}
		for range 4 {
			since := at(m.now)
			m.now += 0.5
			for _, s := range m.spans {
				s.SoFar(at(m.now))
			}
			m.meter.Correct(at(m.now), since, Use{CPUs: 1, Own: 1, Lacked: lacked}, slices.Values(m.spans))
		}
		n := 0
		for _, s := range m.spans {
			if s.Computes() {
				n++
			}
		}
		testkit.Same(t, want, n, "after a wait for CPUs of %g s: computing, of 20", lacked)
	}
}
