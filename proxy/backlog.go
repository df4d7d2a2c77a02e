package proxy

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	// lateAfter is how long a light request's answer takes at least, beyond
	// lateTimes its guess, to count as late.
	lateAfter = 250 * time.Millisecond
	lateTimes = 5
	// enoughLate of them within lateWindow, and as many prompt ones at most, mean
	// that they wait at the backend.
	enoughLate = 10
	lateWindow = 10 * time.Second
	lateWarn   = 5 * time.Minute // between two warnings
)

// backlog notices when the backend's own queue takes over: the gate lets light
// requests go at once, and they take long all the same, as the backend has fewer
// workers than it was said to have. It takes no lock; a count more or less does
// not matter.
type backlog struct {
	log          *zap.Logger
	from, warned atomic.Int64 // Unix nanoseconds
	late, prompt atomic.Int32
}

// note takes in how long a light request's answer took to begin.
func (b *backlog) note(now time.Time, guess, took time.Duration, workers int) {
	if from := b.from.Load(); now.UnixNano()-from > int64(lateWindow) && b.from.CompareAndSwap(from, now.UnixNano()) {
		b.late.Store(0)
		b.prompt.Store(0)
	}
	if took < lateTimes*guess+lateAfter {
		b.prompt.Add(1)
		return
	}
	if late := b.late.Add(1); late < enoughLate || late < b.prompt.Load() {
		return
	}
	if warned := b.warned.Load(); now.UnixNano()-warned > int64(lateWarn) && b.warned.CompareAndSwap(warned, now.UnixNano()) {
		b.log.Warn("the backend's own queue has taken over: light requests wait there; set backend.workers to what it has",
			zap.Int("workers", workers), zap.Duration("guess", guess), zap.Duration("took", took))
	}
}
