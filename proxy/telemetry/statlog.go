package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"tempomat/limiter"
)

// statLogRows bounds the lines of one report: the keys of the longest waits.
const statLogRows = 100

// StatLog logs the keys that are delayed, as the original did: each minute a
// line Slash32,'203.0.113.9',0.734 for every key whose average wait, in seconds,
// is over the threshold. At most statLogRows of them, and then how many more.
type StatLog struct {
	ledger    Ledger
	threshold time.Duration
	now       func() time.Time
	log       *zap.Logger
}

// NewStatLog makes a StatLog that writes to the logger "stats" of log.
func NewStatLog(ledger Ledger, threshold time.Duration, now func() time.Time, log *zap.Logger) *StatLog {
	return &StatLog{ledger: ledger, threshold: threshold, now: now, log: log.Named("stats")}
}

// Run reports each minute until ctx ends.
func (s *StatLog) Run(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.Report()
		}
	}
}

// Report logs the keys that are delayed at this moment, longest wait first.
func (s *StatLog) Report() {
	top := TopRows{Limit: statLogRows, Order: tied(func(a, b limiter.Row) int { return cmp.Compare(b.Wait, a.Wait) })}
	s.ledger.Dump(s.now(), "", func(r limiter.Row) bool {
		if r.Wait > s.threshold.Seconds() {
			top.Offer(r)
		}
		return true
	})
	for _, r := range top.Sorted() {
		s.log.Info(statLine(r))
	}
	if more := top.Seen - top.rows.Len(); more > 0 {
		s.log.Info(fmt.Sprintf("and %d more keys with an average wait over %v", more, s.threshold))
	}
}

// statLine is a row in the original's form.
func statLine(r limiter.Row) string {
	return seriesName(r.Class) + "," + quoteTitle(r.ID) + "," + strconv.FormatFloat(r.Wait, 'f', 3, 64)
}

// quoteTitle puts a key between single quotes. Clients choose what is in it:
// quotes, backslashes and whatever is not printable are escaped as in Go, so
// that no key can end the line or pretend to be two.
func quoteTitle(title string) string {
	q := strconv.Quote(title)
	q = strings.NewReplacer(`\\`, `\\`, `\"`, `"`, `'`, `\'`).Replace(q[1 : len(q)-1])
	return "'" + q + "'"
}
