package telemetry

import (
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/time/rate"

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
	// remarkable is the delay from which a request is logged despite sampling, and has an id.
	remarkable = 100 * time.Millisecond
)

// AccessLog logs requests. Its methods may be called concurrently.
type AccessLog struct {
	log    *zap.Logger
	words  *Words
	lined  atomic.Pointer[lined]
	noted  atomic.Uint64                // requests
	lines  [AccessAll + 1]*rate.Limiter // by kind of log
	missed atomic.Uint64                // lines left out since one was written
}

// NewAccessLog makes one that logs to log, which had better be buffered: it
// is written to while requests are served. Words say what of queries may be logged.
func NewAccessLog(log *zap.Logger, words *Words) *AccessLog {
	l := &AccessLog{log: log, words: words}
	l.lines = [...]*rate.Limiter{
		AccessOff: nil, AccessSampled: rate.NewLimiter(sampledRate, sampledRate), AccessAll: rate.NewLimiter(allRate, allRate),
	}
	return l
}

// lined is where lines of text go.
type lined struct{ to io.Writer }

// SetCombined has requests be logged to a writer as lines in Apache's combined format, each
// in one call of Write; nil: to the log again. It may be called while requests are served.
func (l *AccessLog) SetCombined(to io.Writer) {
	if to == nil {
		l.lined.Store(nil)
		return
	}
	l.lined.Store(&lined{to})
}

// Note implements Recorder.
func (l *AccessLog) Note(now time.Time, r *Record) {
	n := l.noted.Add(1)
	switch {
	case !l.wants(r, n):
	case l.lines[r.Access].AllowN(now, 1):
		l.write(now, r)
	default:
		l.missed.Add(1)
	}
}

// write writes a request's line.
func (l *AccessLog) write(now time.Time, r *Record) {
	missed := l.missed.Swap(0)
	lined := l.lined.Load()
	if lined == nil {
		l.log.Info("request", r.fields(now, l.words, missed)...)
		return
	}
	if missed > 0 { // the format has no place for it
		l.log.Info("lines left out", zap.Uint64("lines_left_out", missed))
	}
	_, _ = lined.to.Write(r.combined(make([]byte, 0, 512), now, l.words)) // nowhere is left to complain
}

// wants reports whether the n-th request is to be logged.
func (l *AccessLog) wants(r *Record, n uint64) bool {
	switch r.Access {
	case AccessAll:
		return true
	case AccessSampled:
		return r.Remarkable() || n%sampleEvery == 1
	case AccessOff:
	}
	return false
}

// fields is the log line of a request.
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
	if w := r.Verdict.Would; w.Key.Class != "" && !r.Verdict.Shadow { // in addition to the real verdict
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

// gateFields appends how the gate ranked the request, and why.
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

// keys logs as a list of class=member.
type keys []limiter.Key

func (k keys) MarshalLogArray(e zapcore.ArrayEncoder) error {
	for _, key := range k {
		e.AppendString(key.Class + "=" + key.ID)
	}
	return nil
}

// Clip bounds what a client can write into the log with one request.
func Clip(s string) string {
	const most = 512
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// combined appends a request's line in Apache's combined format, and its duration in
// microseconds after it, as "%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-agent}i\" %D"
// does. The queries of the request and its referrer contain only what words let through.
func (r *Record) combined(b []byte, now time.Time, words *Words) []byte {
	q := r.Request
	b = r.Who.Client.AppendTo(b)
	b = append(b, " - - ["...)
	b = r.Arrived.AppendFormat(b, "02/Jan/2006:15:04:05 -0700")
	b = append(b, `] "`...)
	b = appendEscaped(b, Clip(q.Method))
	b = append(b, ' ')
	path, query, has := strings.Cut(q.RequestURI, "?")
	b = appendEscaped(b, Clip(path))
	if has {
		b = appendEscaped(append(b, '?'), words.Reduce(r.Who.Shape, query))
	}
	b = append(b, ' ')
	b = appendEscaped(b, q.Proto)
	b = append(b, `" `...)
	b = strconv.AppendInt(b, int64(r.Status), 10)
	b = append(b, ' ')
	if r.Bytes > 0 {
		b = strconv.AppendInt(b, r.Bytes, 10)
	} else {
		b = append(b, '-')
	}
	referer, _, _ := strings.Cut(q.Header.Get("Referer"), "?")
	b = appendField(b, referer)
	b = appendField(b, q.Header.Get("User-Agent"))
	b = append(b, ' ')
	b = strconv.AppendInt(b, max(0, now.Sub(r.Arrived).Microseconds()), 10)
	return append(b, '\n')
}

// appendField appends a header's value between quotes; one that is not there as -.
func appendField(b []byte, s string) []byte {
	b = append(b, ` "`...)
	if s == "" {
		b = append(b, '-')
	}
	b = appendEscaped(b, Clip(s))
	return append(b, '"')
}

// appendEscaped escapes as Apache does (mod_log_config, "Security Considerations"): quotes and
// backslashes with a backslash, the usual control characters as in C, and whatever else is
// not printable ASCII as \xhh.
func appendEscaped(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"', c == '\\':
			b = append(b, '\\', c)
		case c >= '\b' && c <= '\r' && c != '\f':
			b = append(b, '\\', "btnv_r"[c-'\b'])
		case c < ' ', c >= 0x7f:
			b = append(b, '\\', 'x', digits[c>>4], digits[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}
