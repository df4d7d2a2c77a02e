package lifecycle

import (
	"iter"
	"time"

	"tempomat/classify"
	"tempomat/classify/newcomer"
	"tempomat/classify/robots"
	"tempomat/classify/standing"
	"tempomat/cpuaccount"
	"tempomat/limiter"
)

// Gatekeeper is what all requests to a backend have in common. Limiter and Guess are
// set once, by New; both may be used concurrently.
type Gatekeeper struct {
	Limiter *limiter.Limiter
	Guess   *cpuaccount.Estimator

	measured time.Time // when Measure was called last
}

// New makes a Gatekeeper that has seen no request.
func New(now time.Time, l *limiter.Limiter) *Gatekeeper {
	return &Gatekeeper{Limiter: l, Guess: cpuaccount.NewEstimator(), measured: now}
}

// Rules are what is in force for a request, from its first byte to its last. They
// are not changed, only replaced.
type Rules struct {
	Classifier *classify.Classifier
	Robots     *robots.Robots       // nil: none has an account of its own
	Standing   *standing.Judge      // nil: none is judged
	Pins       *classify.Pins       // nil: no pins
	Newcomers  *newcomer.Redirector // nil: no redirects
	Meter      *cpuaccount.Meter
}

// SetWorkers makes the meter charge for a worker what it is worth, of as many as
// the gate has found, and returns how many that are and what they were found by. It
// is called about once a second, and before the first request.
func (g *Gatekeeper) SetWorkers(m *cpuaccount.Meter) (workers int, by string) {
	workers, by = g.Limiter.Workers()
	m.SetWorkers(float64(workers))
	return workers, by
}

// Measure takes in what was used of the CPUs since the last call, or since New. It corrects
// what the running requests were charged with for that time, and tells the limiter, whose room
// for requests that compute follows the use. One goroutine calls it, about twice a second.
func (g *Gatekeeper) Measure(now time.Time, m *cpuaccount.Meter, use cpuaccount.Use, running iter.Seq[*Life]) {
	since := g.measured
	g.measured = now
	m.Correct(now, since, use, func(yield func(*cpuaccount.Span) bool) {
		for l := range running {
			if !yield(&l.span) {
				return
			}
		}
	})
	g.Limiter.Measure(now, use.CPUs)
}
