package proxy

import (
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"tempomat/limiter"
)

// Access is which requests are logged.
type Access uint8

// The kinds of access log.
const (
	AccessOff     Access = iota
	AccessSampled        // all that is remarkable, and one of sampleEvery others
	AccessAll
)

const (
	sampleEvery = 100
	// The access log's most lines a second. A flood of refusals fills no disk,
	// and what is left out is counted.
	sampledRate = 100
	allRate     = 5000
	// remarkable is the delay from which a request is logged though sampled.
	remarkable = 100 * time.Millisecond
)

// Journal counts requests and logs them. Its methods may be called concurrently.
type Journal struct {
	log    *zap.Logger
	totals totals
	second atomic.Int64 // that lines counts in
	lines  atomic.Int64
	missed atomic.Uint64 // lines left out since one was written
}

// NewJournal makes a Journal that logs to log, which had better be buffered: it
// is written to while requests are served.
func NewJournal(log *zap.Logger) *Journal { return &Journal{log: log} }

// note takes in a request that is over.
func (j *Journal) note(now time.Time, x *exchange) {
	n := j.totals.count(x)
	if j.wants(x, n) && j.mayWrite(now, x.policy.Access) {
		j.log.Info("request", x.fields(now, j.missed.Swap(0))...)
	}
}

// wants tells whether the n-th request is to be logged.
func (j *Journal) wants(x *exchange, n uint64) bool {
	switch x.policy.Access {
	case AccessAll:
		return true
	case AccessSampled:
		return x.outcome != Answered || x.delay() >= remarkable || n%sampleEvery == 1
	case AccessOff:
	}
	return false
}

// mayWrite takes a line out of this second's, or counts it as missed. At the
// turn of a second a few lines more may slip through.
func (j *Journal) mayWrite(now time.Time, a Access) bool {
	if s := now.Unix(); j.second.Swap(s) != s {
		j.lines.Store(0)
	}
	most := int64(sampledRate)
	if a == AccessAll {
		most = allRate
	}
	if j.lines.Add(1) > most {
		j.missed.Add(1)
		return false
	}
	return true
}

// delay is how long the client waited because of what its classes owe.
func (x *exchange) delay() time.Duration {
	if x.Verdict.Shadow || x.Verdict.Action != limiter.Go {
		return x.held
	}
	return x.Verdict.Wait + x.held
}

// fields is the log line of a request.
func (x *exchange) fields(now time.Time, missed uint64) []zap.Field {
	r := x.request
	f := []zap.Field{
		zap.Stringer("client", x.Who.Client),
		zap.String("method", clip(r.Method)),
		zap.String("host", clip(r.Host)),
		zap.String("path", clip(r.URL.Path)),
		zap.Int("status", x.writer.status),
		zap.Int64("bytes", x.writer.bytes),
		zap.Stringer("outcome", x.outcome),
		milliseconds("took_ms", now.Sub(x.arrived)),
		milliseconds("cost_ms", x.Cost),
	}
	if x.Who.Exempt {
		f = append(f, zap.Bool("exempt", true))
	} else {
		f = append(f, milliseconds("guess_ms", x.Guess), milliseconds("wait_ms", x.delay()),
			zap.Stringer("verdict", x.Verdict.Action), zap.Array("classes", keys(x.Who.Keys())))
		f = append(f, x.gateFields()...)
	}
	if v := x.Verdict; v.Reason != limiter.None {
		f = append(f, zap.Stringer("reason", v.Reason), zap.String("class", v.Key.Class), zap.String("key", v.Key.ID))
		if v.Shadow {
			f = append(f, zap.Bool("shadow", true), milliseconds("would_wait_ms", v.Wait))
		}
	}
	if x.counted.Blocked {
		f = append(f, zap.String("limit", x.counted.Limit))
	}
	if x.id != "" {
		f = append(f, zap.String("request", x.id))
	}
	if missed > 0 {
		f = append(f, zap.Uint64("lines_left_out", missed))
	}
	return f
}

// gateFields says how the gate took the request, and why.
func (x *exchange) gateFields() []zap.Field {
	if x.Verdict.Lane == limiter.NoLane {
		return nil
	}
	f := []zap.Field{
		zap.Stringer("lane", x.Verdict.Lane),
		zap.Bool("known", x.Verdict.Known),
		zap.Float32("price", x.Verdict.Price),
	}
	if x.policy.Standing != nil {
		f = append(f, zap.Float64("standing", x.Who.Standing), zap.Stringer("evidence", x.Who.Evidence))
	}
	return f
}

func milliseconds(name string, d time.Duration) zap.Field {
	return zap.Float64(name, float64(d.Microseconds())/1e3)
}

// keys logs as a list of class=member.
type keys []limiter.Key

func (k keys) MarshalLogArray(e zapcore.ArrayEncoder) error {
	for _, key := range k {
		e.AppendString(key.Class + "=" + key.ID)
	}
	return nil
}

// clip bounds what a client can write into the log with one request.
func clip(s string) string {
	const most = 512
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
