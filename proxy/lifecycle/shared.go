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

// Shared is the state that all requests to a backend share. New sets Limiter and Guess; both may be used
// concurrently.
type Shared struct {
	Limiter *limiter.Limiter
	Guess   *cpuaccount.Estimator

	measured time.Time // time of the last call of Measure
}

// New makes a Shared that has seen no request.
func New(now time.Time, l *limiter.Limiter) *Shared {
	return &Shared{Limiter: l, Guess: cpuaccount.NewEstimator(), measured: now}
}

// Rules are the part of the configuration that a Life needs. They never change; a reload replaces them.
type Rules struct {
	Classifier *classify.Classifier
	Robots     *robots.Robots       // recognises robots; nil: no robot has an account of its own
	Standing   *standing.Judge      // judges clients; nil: no client is judged
	Pins       *classify.Pins       // standings set by hand; nil: none
	Newcomers  *newcomer.Redirector // redirects newcomers; nil: newcomers are not redirected
	Meter      *cpuaccount.Meter
}

// SetWorkers tells the meter how many workers the backend has. From this number, the meter calculates the price
// of holding a worker. SetWorkers returns the number and its source. It is called before the first request and
// about once a second.
func (g *Shared) SetWorkers(m *cpuaccount.Meter) (workers int, by string) {
	workers, by = g.Limiter.Workers()
	m.SetWorkers(float64(workers))
	return workers, by
}

// Measure takes the use of the CPUs since the last call, or since New. It corrects the charges of the running
// requests for that time, and the limiter adjusts how many requests may compute. Only one goroutine may call
// it, about twice a second.
func (g *Shared) Measure(now time.Time, m *cpuaccount.Meter, use cpuaccount.Use, running iter.Seq[*Life]) {
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
