//go:build accept

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// The acceptance runs take real time and assert on it: make accept, on a machine
// that has nothing else to do. Each prints its figures.

// report is a table of figures.
type figures struct {
	text strings.Builder
	out  *tabwriter.Writer
}

func newFigures(columns ...string) *figures {
	f := &figures{}
	f.out = tabwriter.NewWriter(&f.text, 0, 8, 2, ' ', 0)
	fmt.Fprintln(f.out, "\n"+strings.Join(columns, "\t"))
	return f
}

func (f *figures) row(format string, values ...any) {
	fmt.Fprintf(f.out, strings.ReplaceAll(format, " | ", "\t")+"\n", values...)
}

func (f *figures) String() string {
	_ = f.out.Flush()
	return f.text.String()
}

// within tells whether a figure is as far from another as at most a part of that.
func within(got, want, part float64) bool { return math.Abs(got-want) <= part*want }

// visit is one answered request.
type visit struct{ from, to time.Time }

// crowd is clients that each ask for the next page when they have the last.
type crowd struct {
	t      *testing.T
	ctx    context.Context
	all    sync.WaitGroup
	mu     sync.Mutex // guards the following
	visits map[string][]visit
	failed []string
}

func newCrowd(t *testing.T, lasting time.Duration) *crowd {
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	t.Cleanup(cancel)
	return &crowd{t: t, ctx: ctx, visits: make(map[string][]visit)}
}

// ask has so many clients of one address ask for a page all the time.
func (c *crowd) ask(name string, parallel int, client, url string) {
	for range parallel {
		h := newClient(c.t)
		c.all.Go(func() {
			for c.ctx.Err() == nil {
				c.once(h, name, client, url)
			}
		})
	}
}

func (c *crowd) once(h *http.Client, name, client, url string) {
	req, err := http.NewRequestWithContext(c.ctx, http.MethodGet, url, nil)
	if err != nil {
		panic(err)
	}
	req.Header = from(client)
	v := visit{from: time.Now()}
	res, err := h.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	v.to = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ctx.Err() != nil: // the crowd goes home
	case err != nil:
		c.failed = append(c.failed, name+": "+err.Error())
	case res.StatusCode != http.StatusOK:
		c.failed = append(c.failed, name+": "+res.Status)
		time.Sleep(100 * time.Millisecond)
	default:
		c.visits[name] = append(c.visits[name], v)
	}
}

// wait waits for the end.
func (c *crowd) wait() {
	c.t.Helper()
	c.all.Wait()
	if len(c.failed) > 0 {
		c.t.Errorf("%d requests failed, such as: %s", len(c.failed), c.failed[0])
	}
}

// since are the visits that ended after an instant: how many there were, how
// many per second, and how long one took on average.
func (c *crowd) since(name string, start time.Time) (n int, rate float64, took time.Duration) {
	var first, last time.Time
	var sum time.Duration
	for _, v := range c.visits[name] {
		if v.to.Before(start) {
			continue
		}
		if first.IsZero() || v.to.Before(first) {
			first = v.to
		}
		if v.to.After(last) {
			last = v.to
		}
		n++
		sum += v.to.Sub(v.from)
	}
	if n < 2 {
		return n, 0, 0
	}
	return n, float64(n-1) / last.Sub(first).Seconds(), sum / time.Duration(n)
}

// sayLoad logs how busy the machine is besides.
func sayLoad(t *testing.T) {
	t.Helper()
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		t.Logf("load average at the start: %s", strings.TrimSpace(string(load)))
	}
}

// stayOn pins this process to some CPUs until the test ends.
func stayOn(t *testing.T, cpus string) {
	t.Helper()
	pin := func(list string) string {
		out, err := exec.Command("taskset", "-acp", list, strconv.Itoa(os.Getpid())).CombinedOutput()
		if err != nil {
			t.Fatalf("taskset: %v\n%s", err, out)
		}
		return string(out)
	}
	// "pid 1's current affinity list: 0,1"
	before, _, _ := strings.Cut(pin(cpus), "\n")
	_, list, _ := strings.Cut(before, ": ")
	t.Cleanup(func() { pin(strings.TrimSpace(list)) })
}

// memory is a process's resident set, now and at most, in MB.
func (p *process) memory() (now, most float64) {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.proc.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		kb, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
		switch name {
		case "VmRSS":
			now = kb / 1024
		case "VmHWM":
			most = kb / 1024
		}
	}
	return now, most
}

// forgetMost begins the most of memory anew (proc_pid_clear_refs(5)).
func (p *process) forgetMost() {
	p.t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.proc.Pid), []byte("5"), 0); err != nil {
		p.t.Fatal(err)
	}
}
