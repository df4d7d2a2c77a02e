package proxy

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/cpuaccount"
	"tempomat/cpuaccount/process"
	"tempomat/limiter"
	"tempomat/proxy/host"
)

// stepper takes down what processes are to do.
type stepper struct {
	mu    sync.Mutex
	steps []int // 0: one was put back
	ids   []process.ID
	err   error
	busy  time.Duration // for how long a request computes; 0: all of its time
}

// uses is what a request has used that runs for so long.
func (s *stepper) uses(ran time.Duration) time.Duration {
	if s.busy > 0 {
		return min(ran, s.busy)
	}
	return ran
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

// compute looks at what runs each 20 ms: it computes, in one process.
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
					h.priorities.consider(now, x, id, s.uses(used))
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

// TestStepsDownAndBack has the process of a long request step down three times, and be put
// back before the client has its answer. That of a short one is not touched.
func TestStepsDownAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stepper
		r := startStepping(t, &s, noFailure(t))
		r.do(r.client, request(t, nil, "GET /light"))
		if got := s.seen(); len(got) != 0 {
			t.Errorf("a short request: %v", got)
		}
		res, err := r.client.Do(request(t, nil, "GET /heavy"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(res.Body)
		_ = res.Body.Close()
		if got, want := s.seen(), []int{1, 2, 3, 0}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		r.do(r.client, request(t, nil, "GET /light"))
		if got := s.seen(); len(got) != 4 {
			t.Errorf("the next request on the connection: %v", got)
		}
	})
}

// TestStepsAtOnce: whoever had more than its share, and asks once more for what is known to be long,
// is not let run beside others until it has been.
func TestStepsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stepper
		r := startStepping(t, &s, noFailure(t))
		before := 0
		for range 8 {
			before = len(s.seen())
			r.do(r.client, request(t, nil, "GET /heavy"))
		}
		if got, want := s.seen()[before:], []int{3, 0}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// TestLookedForSoon: it is looked at once for the worker of what steps down at once, and of nothing
// else: not of what nobody knows yet, not where nobody steps down, and not of what may end before
// anybody would have looked, however much its client owes.
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s stepper
				pause := func(http.ResponseWriter, *http.Request) { time.Sleep(c.page) }
				r := startSteppingAt(t, pause, &s, noFailure(t))
				r.handler.bill.tracker.Store(host.NewTracker(nil, nil, nil, nil))
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
				if got := len(r.handler.bill.hurry) > 0; got != c.want {
					t.Errorf("it is looked at once: %t", got)
				}
			})
		})
	}
}

// TestStepsOnlyWhereItQueues leaves processes alone where nobody is to be slowed, and what is
// exempt from it.
func TestStepsOnlyWhereItQueues(t *testing.T) {
	for name, change := range map[string]func(*setup){
		"observe": func(s *setup) { s.limits.Mode = limiter.Observe },
		"cap":     func(s *setup) { s.limits.Mode = limiter.Cap },
		"shadow":  func(s *setup) { s.limits.Shadow = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s stepper
				r := startStepping(t, &s, noFailure(t), change)
				r.do(r.client, request(t, nil, "GET /heavy"))
				if got := s.seen(); len(got) != 0 {
					t.Error(got)
				}
			})
		})
	}
}

// TestStepForbidden is told once that it may not, and asks no more.
func TestStepForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stepper{err: syscall.EPERM}
		told := 0
		r := startStepping(t, &s, func(error) { told++ })
		for range 3 {
			r.do(r.client, request(t, nil, "GET /heavy"))
		}
		if got := s.seen(); told != 1 || !slices.Equal(got, []int{1, 0}) {
			t.Errorf("told %d times, %v", told, got)
		}
	})
}

// TestStepGoneWrong does not try again for a request whose process cannot step down, and for
// the next one does.
func TestStepGoneWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stepper{err: host.ErrShared}
		r := startStepping(t, &s, noFailure(t))
		for range 2 {
			r.do(r.client, request(t, nil, "GET /heavy"))
		}
		if got, want := s.seen(), []int{1, 0, 3, 0}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// TestStepperReplaced has a reload come while a request runs: the one before puts its process
// back, and the next one goes on from there.
func TestStepperReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var before, after stepper
		r := startStepping(t, &before, noFailure(t))
		var all sync.WaitGroup
		all.Go(func() { r.do(r.client, request(t, nil, "GET /heavy")) })
		time.Sleep(150 * time.Millisecond)
		r.handler.SetStepper(&after, noFailure(t))
		all.Wait()
		if got, want := before.seen(), []int{1, 2, 0}; !slices.Equal(got, want) {
			t.Errorf("the one before: %v, want %v", got, want)
		}
		if got, want := after.seen(), []int{2, 3, 0}; !slices.Equal(got, want) {
			t.Errorf("the next one: %v, want %v", got, want)
		}
		all.Go(func() { r.do(r.client, request(t, nil, "GET /heavy")) })
		time.Sleep(150 * time.Millisecond)
		r.handler.SetStepper(nil, nil)
		all.Wait()
		if got, want := after.seen()[3:], []int{3, 0}; !slices.Equal(got, want) {
			t.Errorf("switched off: %v, want %v", got, want)
		}
	})
}

// TestWhoSteppedDownLeavesTheCPU: of two requests on one CPU each is taken to get a half of it; beside one whose
// process has stepped down the other gets all, and pays for it, for as long as that lasts.
func TestWhoSteppedDownLeavesTheCPU(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		after *stepper // a reload
		off   bool     // one that switches it off
		want  time.Duration
	}{
		"it has stepped down":      {nil, nil, false, 10 * time.Millisecond},
		"it may not":               {syscall.EPERM, nil, false, 5 * time.Millisecond},
		"it cannot":                {host.ErrShared, nil, false, 5 * time.Millisecond},
		"it steps down once more":  {nil, &stepper{}, false, 10 * time.Millisecond},
		"it cannot after a reload": {nil, &stepper{err: host.ErrShared}, false, 5 * time.Millisecond},
		"it is switched off":       {nil, nil, true, 5 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
				time.Sleep(2*billEvery + time.Millisecond) // it is looked, and looked again
				var beside cpuaccount.Span
				r.meter.Begin(time.Now(), &beside)
				time.Sleep(10 * time.Millisecond)
				if got := beside.End(time.Now()); (got - c.want).Abs() > time.Millisecond/2 {
					t.Errorf("10 ms cost %s, want %s", got, c.want)
				}
				all.Wait()
			})
		})
	}
}

// TestStepsBackAsItsProcessGoesOn: the process of a request whose answer is read slowly serves another one already,
// or several at once. It is put back then, not as the answer has been read.
func TestStepsBackAsItsProcessGoesOn(t *testing.T) {
	for name, is := range map[string]host.WorkState{"another": host.WorkGone, "several": host.WorkLost} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s stepper
				r := startVirtual(t, http.HandlerFunc(site), fairly)
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
					p.follow(time.Now(), x, &host.Running{Work: &host.Work{}, Is: is})
				})
				p.apply()
				if got, want := s.seen(), []int{1, 0}; !slices.Equal(got, want) {
					t.Errorf("as it goes on: %v, want %v", got, want)
				}
				all.Wait()
				if got := s.seen(); len(got) != 2 {
					t.Errorf("at its end: %v", got)
				}
			})
		})
	}
}

// TestPutsBackFirst: a process that one request leaves and the next one has is put back before it steps down for the
// next one: the other way round that would be refused.
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

// TestStepOrphan puts a process back when the backend is done whose client has left.
func TestStepOrphan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stepper
		r := startStepping(t, &s, noFailure(t))
		ctx, leave := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer leave()
		if _, err := r.client.Do(request(t, nil, "GET /heavy").WithContext(ctx)); err == nil {
			t.Fatal("answered before its time")
		}
		if got := s.seen(); slices.Contains(got, 0) {
			t.Errorf("put back while the backend works: %v", got)
		}
		time.Sleep(2 * time.Second)
		if got, want := s.seen(), []int{1, 2, 3, 0}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}
