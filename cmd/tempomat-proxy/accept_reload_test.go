//go:build accept

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// goodFiles and brokenFiles take turns.
var goodFiles = []string{
	"throttle: {mode: cooperative}\nclasses: {slash32: {share: 0.1, burst: 0s}, slash24: {share: 0.25}, slash16: off, userAgent: off}\n",
	"throttle: {mode: cap}\nclasses: {slash32: {share: 0.1, burst: 0s}, slash24: {share: 0.5}, slash16: off, userAgent: off}\n",
	"throttle: {mode: observe}\nclasses: {slash32: {share: 0.1, burst: 0s}, slash24: off, slash16: off, userAgent: off}\n",
}

var brokenFiles = []struct {
	text, key string
	line      int
}{
	{"throttle: {mode: fast}\n", "throttle.mode", 4},
	{"# a comment\n\nclasses:\n  slash32:\n    share: 7\n", "classes.slash32.share", 8},
	{"trotle: {}\n", "trotle", 4},
	{"cost: {source: wall}\nlog: {level: loud}\n", "log.level", 5},
}

// TestAcceptReloads reloads a thousand times under load.
func TestAcceptReloads(t *testing.T) {
	sayLoad(t)
	const reloads, debtor, rate = 1000, "203.0.113.1", 0.1
	backend := startApache(t)
	const always = "cpuCount: 1\ncost: {source: wall}\nlog: {access: off}\n"
	s := startProxy(t, backend.url, always+goodFiles[2])
	slept := s.later(from(debtor), "/sleep.php?ms=6000")
	s.get(debtor, "/sleep.php?ms=6000")
	if got := <-slept; got != "200 OK" {
		t.Fatal(got)
	}
	before, _ := s.account("slash32", debtor)
	began := time.Now()

	load := startLoad(t, s, 8)
	for i := range reloads {
		seen := s.stderr.len()
		if i%2 == 0 {
			s.configure(t, backend.url, always+goodFiles[i/2%len(goodFiles)])
			s.signal(syscall.SIGHUP)
			s.stderr.await(t, seen, reloaded)
			continue
		}
		broken := brokenFiles[i/2%len(brokenFiles)]
		s.configure(t, backend.url, broken.text)
		s.signal(syscall.SIGHUP)
		s.stderr.await(t, seen, rejected, fmt.Sprintf(`"line":%d,"key":%q`, broken.line, broken.key))
	}
	took := time.Since(began)
	requests, failed := load.end()
	after, _ := s.account("slash32", debtor)
	want := before.Level + rate*time.Since(began).Seconds()
	st := s.stats()

	f := newFigures("reloads", "rejected", "logged", "took", "requests", "failed", "debt before", "after", "expected")
	logged := s.stderr.count(0, rejected)
	f.row("%d | %d | %d | %.1f s | %d | %d | %.3f | %.3f | %.3f", st.Counters["reloads"], st.Counters["reloadsRejected"],
		logged, took.Seconds(), requests, len(failed), before.Level, after.Level, want)
	t.Log(f)
	if len(failed) > 0 || requests < 1000 {
		t.Errorf("%d of %d requests failed: %.1000q", len(failed), requests, failed)
	}
	if st.Counters["reloads"] != reloads/2 || st.Counters["reloadsRejected"] != reloads/2 || logged != reloads/2 {
		t.Errorf("not all reloads are counted and logged, want %d of each", reloads/2)
	}
	if before.Level > -9 || math.Abs(after.Level-want) > 0.05 {
		t.Errorf("the debt of %s was %.3f and is %.3f, want %.3f", debtor, before.Level, after.Level, want)
	}
}

// load is clients that ask for a file without a pause.
type load struct {
	stop context.CancelFunc
	all  sync.WaitGroup

	mu       sync.Mutex // guards the following
	requests int
	failed   []string
}

func startLoad(t *testing.T, s *sidecarProcess, clients int) *load {
	ctx, stop := context.WithCancel(t.Context())
	l := &load{stop: stop}
	t.Cleanup(stop)
	want := fetch(t, newClient(t), http.MethodGet, s.url+"/style.css", nil, nil).body
	for i := range clients {
		c := newClient(t)
		l.all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				problem := askOnce(c, s.url+"/style.css", fmt.Sprintf("10.%d.%d.1", i, n%64), want)
				l.mu.Lock()
				l.requests++
				if problem != "" {
					l.failed = append(l.failed, problem)
				}
				l.mu.Unlock()
			}
		})
	}
	return l
}

func (l *load) end() (requests int, failed []string) {
	l.stop()
	l.all.Wait()
	return l.requests, l.failed
}

// askOnce says what is wrong with an answer.
func askOnce(c *http.Client, url, client, want string) string {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	req.Header = from(client)
	res, err := c.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	var body strings.Builder
	if _, err := io.Copy(&body, res.Body); err != nil {
		return err.Error()
	}
	if res.StatusCode != http.StatusOK || body.String() != want {
		return fmt.Sprintf("%s %.100q", res.Status, body.String())
	}
	return ""
}
