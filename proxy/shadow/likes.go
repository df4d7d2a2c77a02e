package shadow

import (
	"time"

	"tempomat/cpuaccount"
)

// likes knows what requests used of which the backend told, or that were measured at its workers, and were
// answered; so that it can tell what their like would have used.
type likes struct {
	estimator *cpuaccount.Estimator // nil: of none is it known
	// The following are of those that were answered lately, in CPU-seconds.
	exact   float64 // that they used
	guessed float64 // that the sidecar had guessed
}

// likely is what a request would use that was not answered: by what the sidecar guessed if nothing better
// is known. Where many share the CPUs the worker that a request holds may be worth more than what it
// computes, and is what the guess is of.
func (l *likes) likely(s *seen) time.Duration {
	if x, ok := l.mean(s); ok {
		return x
	}
	return l.scaled(s.guess)
}

// mean is what those like a request used, of which it is known, with their mean deviation on top; false: too
// few. Who asks for something else changes nothing of it.
func (l *likes) mean(s *seen) (time.Duration, bool) {
	if l.estimator == nil {
		return 0, false
	}
	x, _, sure := l.estimator.Of(s.came, s.kind())
	return x, sure
}

// scaled is a guess without what guesses are too high by.
func (l *likes) scaled(guess time.Duration) time.Duration {
	if l.guessed <= 0 {
		return guess
	}
	return time.Duration(float64(guess) * min(1, l.exact/l.guessed))
}

// learn takes in what a request used of which it is known.
func (l *likes) learn(s *seen) {
	if l.estimator == nil {
		l.estimator = cpuaccount.NewEstimator()
	}
	l.exact, l.guessed = l.exact*fade+s.asks.Seconds(), l.guessed*fade+s.guess.Seconds()
	l.estimator.Learn(s.came, s.kind(), s.asks, s.idle)
}
