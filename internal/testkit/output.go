package testkit

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Output stores what a program has written so far. Its methods may be called concurrently.
type Output struct {
	mu   sync.Mutex // guards the fields below
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

// Close marks the end of the output.
func (o *Output) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
}

// String returns all output so far.
func (o *Output) String() string {
	text, _ := o.after(0)
	return text
}

// Len returns the length of the output in bytes, which is the position where later lines begin.
func (o *Output) Len() int { return len(o.String()) }

func (o *Output) after(from int) (text string, over bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text[from:]), o.over
}

// Await waits for a complete line after position from that contains all parts. It returns the line and the
// position where the line ends.
func (o *Output) Await(t testing.TB, from int, parts ...string) (found string, next int) {
	t.Helper()
	next = from
	Eventually(t, fmt.Sprintf("a line with %q", parts), func() bool {
		text, over := o.after(next)
		for line := range strings.Lines(text) {
			if !strings.HasSuffix(line, "\n") {
				break
			}
			if next += len(line); HasAll(line, parts) {
				found = strings.TrimSuffix(line, "\n")
				return true
			}
		}
		if over {
			t.Fatalf("the output ended without a line with %q:\n%s", parts, o)
		}
		return false
	})
	return found, next
}

// Count returns how many lines after position from contain all parts.
func (o *Output) Count(from int, parts ...string) (n int) {
	text, _ := o.after(from)
	for line := range strings.Lines(text) {
		if HasAll(line, parts) {
			n++
		}
	}
	return n
}

// HasAll reports whether a text contains all parts.
func HasAll(text string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}
