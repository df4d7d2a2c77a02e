package testkit

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Output is what a program wrote so far. Its methods may be called concurrently.
type Output struct {
	mu   sync.Mutex // guards the following
	text []byte
	over bool
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, p...)
	return len(p), nil
}

// Close says that no more will come.
func (o *Output) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
}

// String is all that was written.
func (o *Output) String() string {
	text, _ := o.after(0)
	return text
}

// Len is how long it is, in bytes: where later lines begin.
func (o *Output) Len() int { return len(o.String()) }

func (o *Output) after(from int) (text string, over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text[from:]), o.over
}

// Await waits for a whole line behind the first bytes that has all parts, and returns it and where it ends.
func (o *Output) Await(t testing.TB, from int, parts ...string) (found string, next int) {
	t.Helper()
	next = from
	Eventually(t, fmt.Sprintf("a line with %q", parts), func() bool {
		text, over := o.after(next)
		for line := range strings.Lines(text) {
			if !strings.HasSuffix(line, "\n") {
				break
			}
			if next += len(line); hasAll(line, parts) {
				found = strings.TrimSuffix(line, "\n")
				return true
			}
		}
		if over {
			t.Fatalf("it ended without a line with %q in:\n%s", parts, o)
		}
		return false
	})
	return found, next
}

// Count is how many lines behind the first bytes have all parts.
func (o *Output) Count(from int, parts ...string) (n int) {
	text, _ := o.after(from)
	for line := range strings.Lines(text) {
		if hasAll(line, parts) {
			n++
		}
	}
	return n
}

func hasAll(line string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(line, p) {
			return false
		}
	}
	return true
}
