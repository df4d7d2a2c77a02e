package telemetry

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/time/rate"

	"tempomat/limiter"
)

// Access says which requests are logged.
type Access uint8

// The kinds of access logs.
const (
	AccessOff     Access = iota
	AccessSampled        // all remarkable requests, and one in sampleEvery of the others
	AccessAll
)

const (
	sampleEvery = 100
	// These constants limit the number of lines per second, so that a flood of rejected requests doesn't fill
	// the disk. Further requests are counted but not logged.
	sampledRate = 100
	allRate     = 5000
	// remarkable is the shortest delay for which a request gets an id and is always logged.
	remarkable = 100 * time.Millisecond
)

// AccessLog logs requests. Its methods may be called concurrently.
type AccessLog struct {
	log    *zap.Logger
	words  *Words
	usual  atomic.Uint64                // number of requests of which one in sampleEvery is logged
	lines  [AccessAll + 1]*rate.Limiter // limit of lines for each kind of log
	missed atomic.Uint64                // number of lines left out since the last written one
}

// NewAccessLog makes an AccessLog that writes to log. The logger should be buffered, because requests wait
// while it writes. words decides which parts of queries may be logged.
func NewAccessLog(log *zap.Logger, words *Words) *AccessLog {
	l := &AccessLog{log: log, words: words}
	l.lines = [...]*rate.Limiter{
		AccessOff: nil, AccessSampled: rate.NewLimiter(sampledRate, sampledRate), AccessAll: rate.NewLimiter(allRate, allRate),
	}
	return l
}

// Note implements Recorder.
func (l *AccessLog) Note(now time.Time, r *Record) {
	switch {
	case !l.wants(r):
	case l.lines[r.Access].AllowN(now, 1):
		l.log.Info("request", r.fields(now, l.words, l.missed.Swap(0))...)
	default:
		l.missed.Add(1)
	}
}

// wants reports whether to log a request.
func (l *AccessLog) wants(r *Record) bool {
	switch r.Access {
	case AccessAll:
		return true
	case AccessSampled:
		return r.Remarkable() || l.usual.Add(1)%sampleEvery == 1
	case AccessOff:
	}
	return false
}

// fields returns the log line of a request.
func (r *Record) fields(now time.Time, words *Words, missed uint64) []zap.Field {
	q := r.Request
	f := []zap.Field{
		zap.Stringer("client", r.Who.Client),
		zap.String("method", Clip(q.Method)),
		zap.String("host", Clip(q.Host)),
		zap.String("path", Clip(q.URL.Path)),
		zap.String("shape", r.Who.Shape),
		zap.Int("status", r.Status),
		zap.Int64("bytes", r.Bytes),
		zap.Stringer("outcome", r.Outcome),
		zap.Stringer("group", r.Group),
		milliseconds("took_ms", now.Sub(r.Arrived)),
		milliseconds("cost_ms", r.Cost),
	}
	if q.URL.RawQuery != "" {
		f = append(f, zap.String("query", words.Reduce(r.Who.Shape, q.URL.RawQuery)))
	}
	if r.Who.Exempt {
		f = append(f, zap.Bool("exempt", true))
	} else {
		f = append(f, milliseconds("guess_ms", r.Guess), milliseconds("wait_ms", r.Waited()),
			zap.Stringer("verdict", r.action()), zap.Array("classes", keys(r.Who.Keys())))
		f = append(f, r.gateFields()...)
	}
	if v := r.Verdict; v.Reason != limiter.None || r.Outcome == Redirected {
		f = append(f, zap.String("reason", r.Why()), zap.String("class", v.Key.Class), zap.String("key", v.Key.ID))
		if v.Shadow {
			f = append(f, zap.Bool("shadow", true), milliseconds("would_wait_ms", v.Wait))
		}
	}
	if w := r.Verdict.Would; w.Key.Class != "" && !r.Verdict.Shadow { // decision of a class in shadow mode
		f = append(f, zap.Stringer("would", w.Action), milliseconds("would_wait_ms", w.Wait),
			zap.String("would_class", w.Key.Class), zap.String("would_key", w.Key.ID))
	}
	if r.Limit != "" {
		f = append(f, zap.String("limit", r.Limit))
	}
	if r.ID != "" {
		f = append(f, zap.String("request", r.ID))
	}
	if missed > 0 {
		f = append(f, zap.Uint64("lines_left_out", missed))
	}
	return f
}

// gateFields returns the fields that show the request's rank in the queue, and the reason for it.
func (r *Record) gateFields() []zap.Field {
	if r.Verdict.CostMultiplier == 0 {
		return nil
	}
	f := []zap.Field{
		zap.Bool("known", r.Verdict.Known),
		zap.Float32("price", r.Verdict.CostMultiplier),
	}
	if r.Judged {
		f = append(f, zap.Float64("standing", r.Who.Standing), zap.Stringer("evidence", r.Who.Evidence))
	}
	return f
}

func milliseconds(name string, d time.Duration) zap.Field {
	return zap.Float64(name, float64(d.Microseconds())/1e3)
}

// keys is logged as a list of class=key.
type keys []limiter.Key

func (k keys) MarshalLogArray(e zapcore.ArrayEncoder) error {
	for _, key := range k {
		e.AppendString(key.Class + "=" + key.ID)
	}
	return nil
}

// Clip shortens text from a client for the log.
func Clip(s string) string {
	const most = 512
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
