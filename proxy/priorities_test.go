package proxy

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/cpuaccount"
	"tempomat/cpuaccount/process"
	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/proxy/host"
)

// stepper records the changes of priorities.
type stepper struct {
	mu    sync.Mutex
	steps []int // 0: a priority was restored
	ids   []process.ID
	err   error
}

func (s *stepper) Step(_ *host.Hold, id process.ID, step int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps, s.ids = append(s.steps, step), append(s.ids, id)
	return s.err
}

func (s *stepper) End(*host.Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, 0)
}

func (*stepper) Mend(process.ID) {}

func (s *stepper) seen() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.steps)
}

// compute measures the running requests every 20 ms, as if each computed in one process.
func compute(ctx context.Context, h *Handler, s *stepper, id process.ID) {
	ticks := time.NewTicker(billEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			h.running.Each(func(x *exchange) {
				if used := now.Sub(x.backend.since); !x.backend.lingers && used >= leastBilled {
					h.priorities.consider(now, x, id, used)
				}
			})
			h.priorities.apply()
		}
	}
}

// startStepping starts a proxy in fair mode whose requests compute.
func startStepping(t *testing.T, s *stepper, failed func(error), changes ...func(*setup)) *rig {
	return startSteppingAt(t, site, s, failed, changes...)
}

func startSteppingAt(t *testing.T, backend http.HandlerFunc, s *stepper, failed func(error), changes ...func(*setup)) *rig {
	r := startVirtual(t, backend, append([]func(*setup){fairly}, changes...)...)
	r.handler.SetStepper(s, failed)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		compute(ctx, r.handler, s, process.ID{PID: 7, Start: 1})
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return r
}

func noFailure(t *testing.T) func(error) { return func(err error) { t.Error(err) } }

// TestStepsDownAndBack: the process of a long request steps down three times, and its priority is restored
// before the client has the answer. The process of a short one isn't touched.
func TestStepsDownAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stepper
		r := startStepping(t, &s, noFailure(t))
		r.do(r.client, request(t, nil, "GET /light"))
		testkit.Same(t, 0, len(s.seen()), "steps for a short request")
		r.do(r.client, request(t, nil, "GET /heavy"))
		testkit.Same(t, []int{1, 2, 3, 0}, s.seen(), "a long request")
		r.do(r.client, request(t, nil, "GET /light"))
		testkit.Same(t, 4, len(s.seen()), "steps after the next request on the connection")
	})
}

// TestLookedForSoon: Bill looks for a request's worker at once only if the worker's priority is lowered at
// once. It doesn't if the cost is unknown, if no priorities are lowered, or if the request may end before Bill
// looks, however much its client owes.
func TestLookedForSoon(t *testing.T) {
	for name, c := range map[string]struct {
		page time.Duration
		owes time.Duration // of CPU time
		off  bool
		want bool
	}{
		"long":               {page: time.Second, want: true},
		"long, switched off": {page: time.Second, off: true},
		"short":              {page: 30 * time.Millisecond},
		"longer, no debt":    {page: 45 * time.Millisecond},
		"short, in debt":     {page: 30 * time.Millisecond, owes: time.Hour},
		"longer, in debt":    {page: 45 * time.Millisecond, owes: time.Hour, want: true},
	} {
		inBubble(t, name, func(t *testing.T) {
			var s stepper
			pause := func(http.ResponseWriter, *http.Request) { time.Sleep(c.page) }
			r := startSteppingAt(t, pause, &s, noFailure(t))
			r.handler.bill.tracker.Store(host.NewTracker(nil, nil, nil))
			if c.off {
				r.handler.SetStepper(nil, nil)
			}
			for i := range 8 {
				if i == 7 && c.owes > 0 {
					r.limiter.Debit(time.Now(), limiter.Charge{Key: limiter.Key{Class: "slash32", ID: "192.0.2.1"}, Cost: c.owes})
				}
				if got := len(r.handler.bill.hurry) > 0; got && i < 2 {
					t.Error("it is looked for what nobody knows")
				}
				r.do(r.client, request(t, nil, "GET /page"))
			}
			testkit.Same(t, c.want, len(r.handler.bill.hurry) > 0, "it is looked at once")
		})
	}
}

// TestWhoTakesNoStep: processes keep their priority in modes that slow no request. If the proxy may not lower
// priorities, this is reported once and never tried again. If it can't lower the priority of one process, it
// doesn't try again for the same request, but does for the next one.
func TestWhoTakesNoStep(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*setup)
		err    error // result of each step
		told   int
		want   []int // for two long requests
	}{
		"observe":               {change: mode(limiter.Observe)},
		"cap":                   {change: mode(limiter.Cap)},
		"shadow":                {change: func(s *setup) { s.limits.Shadow = true }},
		"no process may":        {change: fairly, err: syscall.EPERM, told: 1, want: []int{1, 0}},
		"a process serves more": {change: fairly, err: host.ErrShared, want: []int{1, 0, 3, 0}},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := stepper{err: c.err}
			told := 0
			r := startStepping(t, &s, func(error) { told++ }, c.change)
			for range 2 {
				r.do(r.client, request(t, nil, "GET /heavy"))
			}
			if got := s.seen(); told != c.told || !slices.Equal(got, c.want) {
				t.Errorf("told %d times, %v, want %v", told, got, c.want)
			}
		})
	}
}

// TestStepperReplaced: during a reload while a request runs, the previous Stepper restores the priority of the
// request's process, and the next Stepper continues at the same step.
func TestStepperReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var before, after stepper
		r := startStepping(t, &before, noFailure(t))
		var all sync.WaitGroup
		all.Go(func() { r.do(r.client, request(t, nil, "GET /heavy")) })
		time.Sleep(150 * time.Millisecond)
		r.handler.SetStepper(&after, noFailure(t))
		all.Wait()
		testkit.Same(t, []int{1, 2, 0}, before.seen(), "the one before")
		testkit.Same(t, []int{2, 3, 0}, after.seen(), "the next one")
		all.Go(func() { r.do(r.client, request(t, nil, "GET /heavy")) })
		time.Sleep(150 * time.Millisecond)
		r.handler.SetStepper(nil, nil)
		all.Wait()
		testkit.Same(t, []int{3, 0}, after.seen()[3:], "switched off")
	})
}

// TestWhoSteppedDownLeavesTheCPU: two requests on one CPU are assumed to get half of it each. If the process of
// one has stepped down, the other gets all of the CPU and pays for it, for as long as this lasts.
func TestWhoSteppedDownLeavesTheCPU(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		after *stepper // a reload
		off   bool     // whether a reload switches priorities off
		want  time.Duration
	}{
		"it has stepped down":      {nil, nil, false, 10 * time.Millisecond},
		"it may not":               {syscall.EPERM, nil, false, 5 * time.Millisecond},
		"it cannot":                {host.ErrShared, nil, false, 5 * time.Millisecond},
		"it steps down once more":  {nil, &stepper{}, false, 10 * time.Millisecond},
		"it cannot after a reload": {nil, &stepper{err: host.ErrShared}, false, 5 * time.Millisecond},
		"it is switched off":       {nil, nil, true, 5 * time.Millisecond},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := stepper{err: c.err}
			r := startStepping(t, &s, func(error) {}, func(s *setup) { s.source = cpuaccount.Corrected })
			var all sync.WaitGroup
			all.Go(func() { r.do(r.client, request(t, nil, "GET /heavy")) })
			time.Sleep(700 * time.Millisecond)
			switch {
			case c.off:
				r.handler.SetStepper(nil, nil)
			case c.after != nil:
				r.handler.SetStepper(c.after, func(error) {})
			}
			time.Sleep(2*billEvery + time.Millisecond) // Bill looks twice
			if got := paysBeside(r); (got - c.want).Abs() > time.Millisecond/2 {
				t.Errorf("10 ms cost %s, want %s", got, c.want)
			}
			all.Wait()
		})
	}
}

// paysBeside returns the cost of a request that takes 10 ms while the others run.
func paysBeside(r *rig) time.Duration {
	var beside cpuaccount.Span
	r.meter.Begin(time.Now(), &beside)
	time.Sleep(10 * time.Millisecond)
	cost, _ := beside.End(time.Now(), false)
	return cost
}

// TestStepsBackAsItsProcessGoesOn: while a slow client still reads the answer, the process already serves
// another request or several at once, or another process serves the request. The priority is restored at that
// time, not when the answer has been read.
func TestStepsBackAsItsProcessGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		is    host.WorkState
		steps int // until the answer has been read
	}{"another": {host.WorkGone, 2}, "several": {host.WorkLost, 2}, "another process": {host.WorkRead, 3}} {
		inBubble(t, name, func(t *testing.T) {
			var s stepper
			r := startVirtual(t, http.HandlerFunc(site), fairly, func(s *setup) { s.source = cpuaccount.Corrected })
			r.handler.SetStepper(&s, noFailure(t))
			var all sync.WaitGroup
			all.Go(func() { r.do(r.client, request(t, nil, "GET /heavy")) })
			time.Sleep(200 * time.Millisecond)
			p := &r.handler.priorities
			r.handler.running.Each(func(x *exchange) {
				p.consider(time.Now(), x, process.ID{PID: 7, Start: 1}, 30*time.Millisecond)
			})
			p.apply()
			r.handler.running.Each(func(x *exchange) {
				if c.is == host.WorkRead {
					p.consider(time.Now(), x, process.ID{PID: 8, Start: 1}, 30*time.Millisecond)
				} else {
					p.follow(time.Now(), x, &host.Running{Work: &host.Work{}, Is: c.is})
				}
			})
			p.apply()
			testkit.Same(t, []int{1, 0}, s.seen(), "as it goes on")
			if got := paysBeside(r); c.is != host.WorkRead && (got-5*time.Millisecond).Abs() > time.Millisecond/2 {
				t.Errorf("10 ms beside it cost %s, want half", got)
			}
			all.Wait()
			testkit.Same(t, c.steps, len(s.seen()), "steps at its end")
		})
	}
}

// TestPutsBackFirst: the priority of a process that passes from one request to the next is restored before it
// is lowered for the next one, because the other order would fail.
func TestPutsBackFirst(t *testing.T) {
	var s stepper
	var next, before lowered
	next.by, before.by = &stepping{Stepper: &s}, &stepping{Stepper: &s}
	p := priorities{wishes: []wish{{&next, 2, process.ID{PID: 7}}, {lowered: &before}}}
	p.apply()
	if got, want := s.seen(), []int{0, 2}; !slices.Equal(got, want) || next.gaveUp {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestStepOrphan: the priority is restored when the backend has finished a request whose client has
// disconnected.
func TestStepOrphan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stepper
		r := startStepping(t, &s, noFailure(t))
		leaves(t, r.client, request(t, nil, "GET /heavy"), 300*time.Millisecond)
		if got := s.seen(); slices.Contains(got, 0) {
			t.Errorf("put back while the backend works: %v", got)
		}
		time.Sleep(2 * time.Second)
		testkit.Same(t, []int{1, 2, 3, 0}, s.seen(), "when the backend is done")
	})
}
