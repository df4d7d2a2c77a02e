package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"tempomat/internal/testkit"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// TestLogCommandsNoTerminal: a client's text is logged, but can't control a terminal.
func TestLogCommandsNoTerminal(t *testing.T) {
	for _, text := range []string{
		"/plain", "/é/世界/😀", "/\u009b31mred", "/\u202egnp.exe", "/a\x7fb\x1b[31m", "/\r\n\",\"fake\":1", "/\U000e0041\u2028", "/\ufeff\ufffd",
	} {
		var out bytes.Buffer
		l := NewLog(zapcore.AddSync(&out), zap.InfoLevel)
		l.Info("first", zap.String("path", text))
		l.Named("access").Info("second", zap.String("path", text))
		lines := strings.SplitAfter(out.String(), "\n")
		if len(lines) != 3 {
			t.Fatalf("%q makes %d lines", text, len(lines)-1)
		}
		for _, line := range lines[:2] {
			if i := strings.IndexFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%q: not printable at %d of %q", text, i, line)
			}
			var said struct{ Path string }
			if err := json.Unmarshal([]byte(line), &said); err != nil || said.Path != text {
				t.Errorf("%q became %q: %v", text, said.Path, err)
			}
		}
	}
}

// disk is a log that can't always be written.
type disk struct {
	mu     sync.Mutex // guards the fields below
	takes  int        // number of bytes that the next Write takes; negative: all
	text   bytes.Buffer
	writes int
}

func (w *disk) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	if w.takes >= 0 {
		n, _ := w.text.Write(p[:min(w.takes, len(p))])
		return n, errors.New("no space left on device")
	}
	return w.text.Write(p)
}

// has returns the written text, and the number of calls.
func (w *disk) has() (text string, writes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String(), w.writes
}

func (w *disk) take(bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.takes = bytes
}

// TestOutputNeverWaits writes lines while the log isn't read. Lines for which there is no room are lost and counted,
// but there is still room for the program's own messages.
func TestOutputNeverWaits(t *testing.T) {
	in, out := io.Pipe()
	defer in.Close()
	o := NewOutput(out)
	later := Later{o}
	line := bytes.Repeat([]byte("x"), 1023)
	line = append(line, '\n')
	const lines = 3 * mostPending / 1024
	for range lines {
		if n, err := later.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	lost := o.Lost()
	if least := uint64(lines - 2*mostLater/1024); lost < least || lost >= lines {
		t.Fatalf("%d of %d lines are lost", lost, lines)
	}
	if _, _ = o.Write([]byte("the program's own\n")); o.Lost() != lost {
		t.Error("the access log takes all the room")
	}
	read := make(chan string)
	go func() {
		text, _ := io.ReadAll(in)
		read <- string(text)
	}()
	o.Close()
	out.Close()
	text := <-read
	testkit.Same(t, lines-lost, uint64(strings.Count(text, string(line))), "lines")
	told := uint64(0) // reported at once or in parts
	for _, part := range regexp.MustCompile(`"lines_left_out":(\d+)`).FindAllStringSubmatch(text, -1) {
		n, _ := strconv.ParseUint(part[1], 10, 64)
		told += n
	}
	if own := strings.Index(text, "the program's own"); own < 0 || strings.LastIndex(text, "lines_left_out") < own || told != lost {
		t.Errorf("the program's line is at %d, and %d lost ones are told, want %d", own, told, lost)
	}
}

// TestOutputTellsOfWhatFailed: a full disk takes a part of a line, then nothing, and then has room again.
func TestOutputTellsOfWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &disk{takes: 4}
		o := NewOutput(w)
		for i, text := range []string{"first\n", "second\n", "third\n"} {
			_, _ = o.Write([]byte(text))
			synctest.Wait()
			testkit.Same(t, uint64(min(i+1, 2)), o.Lost(), "lost after line %d", i+1)
			w.take(0)
			if i == 1 {
				w.take(-1)
			}
		}
		o.Close()
		text, _ := w.has()
		rest, ok := strings.CutPrefix(text, "firs\nthird\n{")
		if !ok || strings.Count(rest, "\n") != 1 || !strings.Contains(rest, `"lines_left_out":2}`) {
			t.Errorf("the log has %q", text)
		}
	})
}

// TestOutputGathersLines: lines that may wait are written together, within a second.
func TestOutputGathersLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &disk{takes: -1}
		o := NewOutput(w)
		defer o.Close()
		for range 100 {
			_, _ = Later{o}.Write([]byte("line\n"))
		}
		synctest.Wait()
		if text, _ := w.has(); text != "" {
			t.Error("lines are written at once")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if text, writes := w.has(); writes != 1 || len(text) != 500 {
			t.Errorf("%d bytes in %d writes", len(text), writes)
		}
	})
}

// TestOutputEndsThoughNothingReads: the program ends even if the log isn't read.
func TestOutputEndsThoughNothingReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		defer in.Close() // ends the goroutine of the Output
		o := NewOutput(out)
		_, _ = o.Write([]byte("line\n"))
		o.Close()
	})
}
