package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tempomat/cpuaccount"
	"tempomat/internal/testkit"
	"tempomat/proxy/host"
)

// startCostSocket returns the socket that workers report to, and a writer that reports there.
func startCostSocket(t *testing.T) (*host.CostSocket, io.Writer) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "w.sock")
	costSocket, err := host.OpenCostSocket(path)
	testkit.Must(t, err)
	tell, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = tell.Close() })
	return costSocket, tell
}

// TestWorkersTell: the backend, which is this process, reports which request it serves, and the kernel's
// count of its CPU time is charged. Only the backend gets the number.
func TestWorkersTell(t *testing.T) {
	costSocket, tell := startCostSocket(t)
	var mu sync.Mutex
	var numbers []string
	r := start(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		numbers = append(numbers, strings.Join(q.Header.Values(numberHeader), ","))
		mu.Unlock()
		if number := q.Header.Get(numberHeader); number != "" && q.URL.Path == "/tells" {
			_, _ = io.WriteString(tell, "+"+number)
		}
		w.Header().Set(numberHeader, q.Header.Get(numberHeader))
		for from := time.Now(); time.Since(from) < 3*leastBilled; { // and computes
		}
		if number := q.Header.Get(numberHeader); number != "" && q.URL.Path == "/tells" {
			_, _ = io.WriteString(tell, "-"+number) // otherwise the backend would seem to serve several requests at once
		}
	}), func(s *setup) { s.source = cpuaccount.Process })
	ask := func(path string) {
		q := request(t, nil, "GET "+path)
		q.Header.Set(numberHeader, "mine")
		res, _ := r.do(r.client, q)
		testkit.Same(t, nil, res.Header.Values(numberHeader), "the client gets")
	}
	ask("/before")
	ctx, stop := context.WithCancel(t.Context())
	var bills sync.WaitGroup
	bills.Go(func() { r.handler.Bill(ctx, host.NewTracker(nil, costSocket, func(error) {})) })
	testkit.Eventually(t, "it measures", func() bool { return r.handler.bill.tracker.Load() != nil })
	ask("/silent")
	testkit.Same(t, 0, r.meter.Sums().Process, "nobody told: known")
	for range 200 { // until Bill looks while a request runs
		if ask("/tells"); r.meter.Sums().Process > 0 {
			break
		}
	}
	stop()
	bills.Wait()
	if r.meter.Sums().Process == 0 {
		t.Error("what the backend tells is not heard")
	}
	ask("/after")
	mu.Lock()
	defer mu.Unlock()
	if numbers[0] != "" || numbers[len(numbers)-1] != "" {
		t.Errorf("where none is told the backend gets %q and %q", numbers[0], numbers[len(numbers)-1])
	}
	seen := map[string]bool{}
	for _, n := range numbers[1 : len(numbers)-1] {
		if len(n) != 32 || seen[n] {
			t.Errorf("the backend gets %q, again: %t", n, seen[n])
		}
		seen[n] = true
	}
}

// TestNobodyHasAcceptedYet: while a request waits in the queue of the backend's connections, no process serves
// it. No priority is lowered, and the request costs nothing. When measuring ends, its cost is estimated again.
func TestNobodyHasAcceptedYet(t *testing.T) {
	l := loopback(t)
	backend := &url.URL{Scheme: "http", Host: l.Addr().String()}
	finder, err := host.OpenFinder(backend)
	testkit.Must(t, err)
	r := start(t, nil, fairly, func(s *setup) { s.source, s.backend.URL = cpuaccount.Process, backend })
	var steps stepper
	r.handler.SetStepper(&steps, noFailure(t))
	ctx, stop := context.WithCancel(t.Context())
	var beside sync.WaitGroup
	beside.Go(func() {
		r.handler.Bill(ctx, host.NewTracker(finder, nil, func(err error) {
			if err != nil {
				t.Error(err)
			}
		}))
	})
	answered := make(chan struct{})
	beside.Go(func() {
		defer close(answered)
		r.do(r.client, request(t, nil, "GET /"))
	})
	testkit.Eventually(t, "it is seen that nobody has accepted, so that it costs nothing", func() (seen bool) {
		r.handler.running.Each(func(x *exchange) {
			now := time.Now()
			seen = !x.kernel.billed.accepted.IsZero() && now.Sub(x.backend.since) > 10*leastBilled && x.life.SoFar(now) < leastBilled
		})
		return seen
	})
	stop()
	testkit.Eventually(t, "it is estimated", func() (grows bool) {
		r.handler.running.Each(func(x *exchange) { grows = x.life.CPUSoFar(time.Now()) > 0 })
		return grows
	})
	origin := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	beside.Go(func() { _ = origin.Serve(l) })
	<-answered
	_ = origin.Close()
	beside.Wait()
	testkit.Same(t, 0, len(steps.seen()), "steps down")
}

// TestLooksSeldomWhileNobodyComputes: running requests are measured as often as their steps require while some
// of them compute, and less often while all of them wait. The limiter expects that the priorities of their
// processes can be lowered, until an attempt fails.
func TestLooksSeldomWhileNobodyComputes(t *testing.T) {
	for name, computes := range map[string]bool{"it computes": true, "it waits": false} {
		t.Run(name, func(t *testing.T) {
			costSocket, tell := startCostSocket(t)
			release := make(chan struct{})
			r := start(t, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
				_, _ = io.WriteString(tell, "+"+q.Header.Get(numberHeader))
				for computes && !testkit.Ready(release) {
				}
				<-release
			}), fairly, func(s *setup) { s.source = cpuaccount.Process })
			r.handler.SetStepper(&stepper{err: host.ErrShared}, noFailure(t))
			tracker := host.NewTracker(nil, costSocket, func(error) {})
			r.handler.bill.tracker.Store(tracker)
			ctx, stop := context.WithCancel(t.Context())
			var beside sync.WaitGroup
			beside.Go(func() { tracker.Run(ctx) })
			beside.Go(func() { r.do(r.client, request(t, nil, "GET /")) })
			preempted := false
			testkit.Eventually(t, "it is seen what the worker does", func() (seen bool) {
				now, known := time.Now(), false
				got := r.handler.lookAtWork(now, tracker)
				r.handler.running.Each(func(x *exchange) {
					known = x.kernel.billed.work != nil && now.Sub(x.backend.since) > 10*leastBilled
				})
				preempts := r.handler.priorities.preempts
				preempted = preempted || preempts
				return known && got == computes && preempted && !(computes && preempts)
			})
			close(release)
			stop()
			beside.Wait()
			tracker.Close()
		})
	}
}
