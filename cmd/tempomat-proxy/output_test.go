package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// output collects the lines of what a program writes, and wakes those who wait
// for one.
type output struct {
	mu    sync.Mutex // guards the following
	lines []string
	part  []byte        // the last line, which has no end yet
	more  chan struct{} // closed when lines grow
	over  bool          // no more will come
}

func newOutput() *output { return &output{more: make(chan struct{})} }

// pipe is for programs to write to. Said is closed when the last one has ended.
func (o *output) pipe(t *testing.T, said chan<- struct{}) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.Copy(o, read)
		_ = read.Close()
		o.close()
		if said != nil {
			close(said)
		}
	}()
	return write
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.part = append(o.part, p...)
	for {
		line, rest, ok := bytes.Cut(o.part, []byte("\n"))
		if !ok {
			break
		}
		o.lines = append(o.lines, string(line))
		o.part = append([]byte(nil), rest...)
	}
	close(o.more)
	o.more = make(chan struct{})
	return len(p), nil
}

// close says that no more will come.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	close(o.more)
	o.more = make(chan struct{})
}

func (o *output) closed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.over
}

func (o *output) since(n int) (lines []string, more <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lines[min(n, len(o.lines)):], o.more
}

// len is the number of lines so far: where later ones begin.
func (o *output) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.lines)
}

// String is all that was written.
func (o *output) String() string {
	lines, _ := o.since(0)
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(lines, "\n") + "\n" + string(o.part)
}

// await returns the first line from the n-th on that has all parts, and the
// number of the line after it.
func (o *output) await(t *testing.T, n int, parts ...string) (line string, next int) {
	t.Helper()
	limit := time.NewTimer(testkit.Patience)
	defer limit.Stop()
	for from := n; ; {
		closed := o.closed()
		lines, more := o.since(from)
		for i, line := range lines {
			if hasAll(line, parts) {
				return line, from + i + 1
			}
		}
		from += len(lines)
		if closed {
			t.Fatalf("it ended without a line with %q in:\n%s", parts, o)
		}
		select {
		case <-more:
		case <-limit.C:
			t.Fatalf("no line with %q in:\n%s", parts, o)
		}
	}
}

// count is how many lines from the n-th on have all parts.
func (o *output) count(n int, parts ...string) (found int) {
	lines, _ := o.since(n)
	for _, line := range lines {
		if hasAll(line, parts) {
			found++
		}
	}
	return found
}

func hasAll(line string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(line, p) {
			return false
		}
	}
	return true
}

// logLine is one line of the proxy's log.
type logLine struct {
	Message string   `json:"msg"`
	PID     int      `json:"pid"`
	Listen  []string `json:"listen"`
	Path    string   `json:"path"`
	Cost    float64  `json:"cost_ms"`
	Guess   float64  `json:"guess_ms"`
	Wait    float64  `json:"wait_ms"`
	Took    float64  `json:"took_ms"`
	Bytes   int64    `json:"bytes"`
	Outcome string   `json:"outcome"`
}

func parseLog(t *testing.T, line string) (l logLine) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &l); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return l
}
