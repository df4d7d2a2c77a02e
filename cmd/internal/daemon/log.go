package daemon

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"tempomat/config"
)

// NewLog makes a log of lines of JSON, in which nothing that a client chose does anything in a
// terminal. Writes to out must be safe for concurrent use.
func NewLog(out zapcore.WriteSyncer, from zapcore.LevelEnabler) *zap.Logger {
	encoding := zap.NewProductionEncoderConfig()
	encoding.TimeKey = "time"
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoding), plainJSON{out}, from))
}

// SetLevel sets a level by its name, which the configuration has checked.
func SetLevel(to zap.AtomicLevel, name string) {
	if level, err := zapcore.ParseLevel(name); err == nil {
		to.SetLevel(level)
	}
}

const (
	// mostPending is how many bytes of lines wait to be written. Lines beyond are lost.
	mostPending = 1 << 20
	// mostLater is what of them WriteLater may fill, so that what the program itself has to say
	// still finds room.
	mostLater = mostPending * 3 / 4
	// lastWrite is how long the program waits at its end for what is still to be written.
	lastWrite = time.Second
)

// Output writes lines on, and its callers never wait for it. The log's reader may stop reading,
// its disk may be full, or its pipe may be closed: lines that cannot be written are lost and
// counted, and the program goes on. As soon as the log can be written again, a line there says how
// many were lost.
type Output struct {
	to     io.Writer
	told   *zap.Logger   // writes to it directly
	wake   chan struct{} // something is to be written now
	closed chan struct{}
	ended  chan struct{} // closed when the last line is written
	torn   bool          // what was written last ends within a line

	mu      sync.Mutex // guards the following; it is never held while something is written
	pending []byte
	lost    uint64 // lines since the start
	lostAt  time.Time
	why     error // why the last one was lost
}

// lostLately is for how long after the last loss an Output counts as one that loses lines.
const lostLately = time.Minute

var errSlow = errors.New("what reads it is too slow")

// NewOutput makes an Output that writes to a writer until Close. From then on a closed pipe
// does not end the program, even if it is standard error.
func NewOutput(to io.Writer) *Output {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	o := &Output{to: to, wake: make(chan struct{}, 1), closed: make(chan struct{}), ended: make(chan struct{})}
	o.told = NewLog(zapcore.AddSync(to), zap.WarnLevel)
	go o.run()
	return o
}

// Write takes a line, which is written as soon as possible. It never fails.
func (o *Output) Write(line []byte) (int, error) {
	o.put(line, mostPending, 0)
	return len(line), nil
}

// Sync implements zapcore.WriteSyncer.
func (o *Output) Sync() error { return nil }

// Later is an Output for lines that are written within a second, which takes less if there are
// many.
type Later struct{ *Output }

// Write takes a line. It never fails.
func (l Later) Write(line []byte) (int, error) {
	l.put(line, mostLater, mostLater/2)
	return len(line), nil
}

// put appends a line to what is to be written, if that is at most so many bytes then, and has it
// written now if it is more than that many.
func (o *Output) put(line []byte, most, patient int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.pending)+len(line) > most {
		o.loseLocked(1, errSlow)
		return
	}
	o.pending = append(o.pending, line...)
	if len(o.pending) > patient {
		select {
		case o.wake <- struct{}{}:
		default: // it is about to be
		}
	}
}

// Lost is how many lines were lost since the start.
func (o *Output) Lost() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost
}

// Losing is how many lines were lost since the start, and why; no error: none was in the last minute.
func (o *Output) Losing(now time.Time) (uint64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.lostAt) > lostLately {
		return o.lost, nil
	}
	return o.lost, o.why
}

func (o *Output) loseLocked(lines int, why error) {
	o.lost += uint64(lines) //nolint:gosec // not negative
	o.lostAt, o.why = time.Now(), why
}

// Close writes what is left, unless that takes too long.
func (o *Output) Close() {
	close(o.closed)
	select {
	case <-o.ended:
	case <-time.After(lastWrite):
	}
}

// run writes until the end.
func (o *Output) run() {
	defer close(o.ended)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var lines []byte
	told := uint64(0) // of those that were lost
	for open := true; open; {
		select {
		case <-o.wake:
		case <-tick.C:
		case <-o.closed:
			open = false
		}
		o.mu.Lock()
		lines, o.pending = o.pending, lines[:0]
		lost := o.lost
		o.mu.Unlock()
		// Lines were lost as those before them filled the queue.
		if len(lines) > 0 && o.write(lines) && lost > told {
			o.told.Warn("lines left out: the log could not be written", zap.Uint64("lines_left_out", lost-told))
			told = lost
		}
	}
}

// write writes lines, and tells whether it could. Those that it could not are lost.
func (o *Output) write(lines []byte) bool {
	if o.torn { // the rest of that line is lost
		if _, err := o.to.Write([]byte("\n")); err == nil {
			o.torn = false
		}
	}
	n, err := o.to.Write(lines)
	if err == nil {
		return true
	}
	if n > 0 {
		o.torn = lines[n-1] != '\n'
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.loseLocked(bytes.Count(lines[n:], []byte("\n")), err)
	return false
}

// plainJSON writes lines of JSON on as PlainJSON makes them.
type plainJSON struct{ zapcore.WriteSyncer }

// Write implements io.Writer; it is given whole lines.
func (w plainJSON) Write(line []byte) (int, error) {
	for i, c := range line {
		if c >= 0x7f {
			if _, err := w.WriteSyncer.Write(appendPlain(line[:i:i], line[i:])); err != nil {
				return 0, err
			}
			return len(line), nil
		}
	}
	return w.WriteSyncer.Write(line)
}

// PlainJSON is a document of JSON in which what is not printable is escaped. JSON itself lets the
// terminal commands of the C1 range through, and what turns a line around; clients choose their
// URLs, and administrators look at logs and documents in terminals. The document means the same.
func PlainJSON(document []byte) string { return string(appendPlain(nil, document)) }

func appendPlain(to, text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case text[0] == '\n' || unicode.IsPrint(r) && r != utf8.RuneError:
			to = append(to, text[:n]...)
		case r < 0x10000:
			to = appendEscape(to, r)
		default:
			high, low := utf16.EncodeRune(r)
			to = appendEscape(appendEscape(to, high), low)
		}
		text = text[n:]
	}
	return to
}

func appendEscape(to []byte, r rune) []byte {
	hex := strconv.FormatInt(0x10000+int64(r), 16) // four digits behind the first
	return append(append(to, `\u`...), hex[1:]...)
}

// LogRejected logs what is wrong with a configuration that was read again, fault by fault.
func LogRejected(log *zap.Logger, err error) {
	var faults config.Faults
	if !errors.As(err, &faults) {
		log.Error("configuration rejected; the running one stays", zap.Error(err))
		return
	}
	for _, f := range faults {
		log.Error("configuration rejected; the running one stays", zap.String("fault", f.Error()),
			zap.Int("line", f.Line), zap.String("key", f.Key))
	}
}

// LogChanges logs what has become of keys that were changed.
func LogChanges(log *zap.Logger, changes []config.Change) {
	for _, c := range changes {
		fields := []zap.Field{zap.String("key", c.Key), zap.String("old", c.Old), zap.String("new", c.New)}
		if c.NeedsRestart {
			log.Warn("changed, but only a restart can put it in force", fields...)
			continue
		}
		log.Info("changed", fields...)
	}
}
