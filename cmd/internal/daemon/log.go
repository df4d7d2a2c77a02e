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

// NewLog makes a log that writes lines of JSON. The lines contain no characters that could control a
// terminal, because clients choose some of the texts. out must allow concurrent writes.
func NewLog(out zapcore.WriteSyncer, from zapcore.LevelEnabler) *zap.Logger {
	encoding := zap.NewProductionEncoderConfig()
	encoding.TimeKey = "time"
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(encoding), plainJSON{out}, from))
}

// SetLevel sets a level by its name, which package config has checked.
func SetLevel(to zap.AtomicLevel, name string) {
	if level, err := zapcore.ParseLevel(name); err == nil {
		to.SetLevel(level)
	}
}

const (
	// mostPending is the most bytes that may wait to be written. Further lines are lost.
	mostPending = 1 << 20
	// mostLater is the part of mostPending that Later may fill. The rest is for the program's own
	// messages.
	mostLater = mostPending * 3 / 4
	// lastWrite is the longest time that the program waits at its end for the last lines to be written.
	lastWrite = time.Second
)

// Output writes lines without making its callers wait. If the reader of the log is too slow, the disk is full
// or the pipe is closed, lines are lost and counted, and the program continues. When the log can be written
// again, a line reports how many were lost.
type Output struct {
	to     io.Writer
	told   *zap.Logger   // writes to the same writer, bypassing the queue
	wake   chan struct{} // wakes run
	closed chan struct{}
	ended  chan struct{} // closed when the last line is written
	torn   bool          // the last write ended in the middle of a line

	mu      sync.Mutex // guards the fields below; it is not held during a write
	pending []byte
	lost    uint64 // lines since the start
	lostAt  time.Time
	why     error // why the last of them was lost
}

// lossShown is the time for which Losing reports a loss.
const lossShown = time.Minute

var errSlow = errors.New("the log's reader is too slow")

// NewOutput makes an Output that writes to a writer until Close. From then on, writing to a closed pipe
// doesn't end the program, even on standard error.
func NewOutput(to io.Writer) *Output {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	o := &Output{to: to, wake: make(chan struct{}, 1), closed: make(chan struct{}), ended: make(chan struct{})}
	o.told = NewLog(zapcore.AddSync(to), zap.WarnLevel)
	go o.run()
	return o
}

// Write queues a line and returns at once. It never fails.
func (o *Output) Write(line []byte) (int, error) {
	o.put(line, mostPending, 0)
	return len(line), nil
}

// Sync implements zapcore.WriteSyncer.
func (o *Output) Sync() error { return nil }

// Later is an Output for lines that may wait for up to a second and are then written together. If there are many
// lines, they are written sooner.
type Later struct{ *Output }

// Write queues a line. It never fails.
func (l Later) Write(line []byte) (int, error) {
	l.put(line, mostLater, mostLater/2)
	return len(line), nil
}

// put queues a line. If the queue would then be longer than most bytes, the line is lost. If the queue is longer than
// patient bytes, it is written now.
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
		default: // run has been woken already
		}
	}
}

// Lost returns the number of lines lost since the start.
func (o *Output) Lost() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost
}

// Losing returns the number of lines lost since the start, and why the last of them was lost. The error is nil if
// none was lost in the last minute.
func (o *Output) Losing(now time.Time) (uint64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.lostAt) > lossShown {
		return o.lost, nil
	}
	return o.lost, o.why
}

func (o *Output) loseLocked(lines int, why error) {
	o.lost += uint64(lines) //nolint:gosec // not negative
	o.lostAt, o.why = time.Now(), why
}

// Close writes the remaining lines, but waits for at most lastWrite.
func (o *Output) Close() {
	close(o.closed)
	select {
	case <-o.ended:
	case <-time.After(lastWrite):
	}
}

// run writes lines until Close.
func (o *Output) run() {
	defer close(o.ended)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var lines []byte
	told := uint64(0) // number of lost lines that were reported
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
		// Lines are lost when the queue is full, so they come after those that were just written.
		if len(lines) > 0 && o.write(lines) && lost > told {
			o.told.Warn("log lines were lost because the log could not be written or its reader was too slow", zap.Uint64("lines_left_out", lost-told))
			told = lost
		}
	}
}

// write writes lines, and reports whether it succeeded. It counts the lines that it could not write.
func (o *Output) write(lines []byte) bool {
	if o.torn { // ends the incomplete line
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

// plainJSON escapes lines as PlainJSON does, and passes them on.
type plainJSON struct{ zapcore.WriteSyncer }

// Write implements io.Writer. Each call must pass whole lines.
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

// PlainJSON escapes the characters of a JSON document that aren't printable, without changing its meaning. JSON
// itself allows control characters in the C1 range, and characters that reverse the direction of text. They must be
// escaped because clients choose their URLs, and administrators read logs in terminals.
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
	hex := strconv.FormatInt(0x10000+int64(r), 16) // the last four digits are used
	return append(append(to, `\u`...), hex[1:]...)
}

// LogRejected logs each fault of a configuration that a reload could not use.
func LogRejected(log *zap.Logger, err error) {
	var faults config.Faults
	if !errors.As(err, &faults) {
		log.Error("configuration rejected; the current one stays in use", zap.Error(err))
		return
	}
	for _, f := range faults {
		log.Error("configuration rejected; the current one stays in use", zap.String("fault", f.Error()),
			zap.Int("line", f.Line), zap.String("key", f.Key))
	}
}

// LogChanges logs each key that a reload changed, and whether the change needs a restart.
func LogChanges(log *zap.Logger, changes []config.Change) {
	for _, c := range changes {
		fields := []zap.Field{zap.String("key", c.Key), zap.String("old", c.Old), zap.String("new", c.New)}
		if c.NeedsRestart {
			log.Warn("a changed setting takes effect only after a restart", fields...)
			continue
		}
		log.Info("setting changed", fields...)
	}
}
