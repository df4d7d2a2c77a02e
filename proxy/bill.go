package proxy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/proxy/host"
)

const (
	// billEvery is how often it is looked what runs, while some of that computes.
	billEvery = 20 * time.Millisecond
	// billSeldom is how often it looks while no process was seen to compute: then no request waits
	// for a CPU, and waking up is most of the cost of a look.
	billSeldom = 40 * time.Millisecond
	// leastBilled is how long a request must be at the backend before its CPU time is measured.
	// The cost of shorter ones is estimated, without a system call.
	leastBilled = 20 * time.Millisecond
	// soon is how long after a request goes to the backend that is to step down at once it is
	// looked who serves it: it has been accepted by then.
	soon = 2 * time.Millisecond
)

// numberHeader is the field that carries a request's number to the backend, for a worker that
// reports which request it serves. It is removed from clients' requests and from responses.
const numberHeader = "Tempomat-Request"

// bill is what a Handler measures the CPU time of requests by.
type bill struct {
	tracker atomic.Pointer[host.Tracker] // nil: nothing
	all     []host.Running
	whose   []*exchange
	index   map[*exchange]int
	hurry   chan struct{} // a request has come that is to step down at once
}

// Bill measures what requests use of the CPUs at the backend's workers, until the context
// ends: those whose meter makes something of that. It is called once at a time, and closes
// the Tracker.
func (h *Handler) Bill(ctx context.Context, t *host.Tracker) {
	defer t.Close()
	h.bill.tracker.Store(t)
	defer h.bill.tracker.Store(nil)
	ctx, stop := context.WithCancel(ctx)
	var told sync.WaitGroup
	told.Go(func() { t.Run(ctx) })
	defer told.Wait()
	defer stop() // also where it panics, which would else wait here for ever
	next, early := time.NewTimer(billEvery), time.NewTimer(soon)
	defer next.Stop()
	defer early.Stop()
	for {
		var now time.Time
		select {
		case <-ctx.Done():
			h.loseAll(time.Now())
			h.tellPreempts(0, 0)
			return
		case <-h.bill.hurry:
			early.Reset(soon)
			continue
		case now = <-next.C:
		case now = <-early.C:
		}
		if h.lookAtWork(now, t) {
			next.Reset(billEvery)
		} else {
			next.Reset(billSeldom)
		}
	}
}

// expect has it be looked soon who serves a request, if that is to step down at once.
func (b *bill) expect(x *exchange) {
	if b.tracker.Load() == nil || !x.stepsAtOnce() {
		return
	}
	select {
	case b.hurry <- struct{}{}:
	default: // it is looked soon anyway
	}
}

// lookAtWork reads what runs. No request waits for it, so a request may end meanwhile and its
// place serve another. It returns whether any process was seen to compute.
func (h *Handler) lookAtWork(now time.Time, t *host.Tracker) (computes bool) {
	b := &h.bill
	b.collect(h, now)
	if len(b.all) == 0 {
		return false
	}
	t.Look(now, b.all)
	h.priorities.mend(t.Fresh())
	if b.index == nil {
		b.index = make(map[*exchange]int)
	}
	clear(b.index)
	for i, x := range b.whose {
		b.index[x] = i
	}
	known, unknown := 0, 0
	h.running.Each(func(x *exchange) {
		if i, ok := b.index[x]; ok && x.backend.since.Equal(b.all[i].Began) && !x.backend.lingers {
			x.takeReading(now, &b.all[i])
			h.priorities.follow(now, x, &b.all[i])
		}
		switch {
		case !x.isMeasured(now):
		case x.kernel.billed.work != nil:
			if x.kernel.lowered == nil || !x.kernel.lowered.gaveUp { // else it could not step down
				known++
			}
			computes = computes || x.kernel.billed.computes
		case now.Sub(x.backend.since) >= leastBilled && !x.backend.work.isStream(): // these compute little
			unknown++
		}
	})
	h.priorities.apply()
	h.tellPreempts(known, unknown)
	return computes
}

// computesPart: a request computes if its worker has a CPU, or waits for one, in at least one
// of so many parts of its time.
const computesPart = 4

// isMeasured reports whether it is looked at what a request uses of the CPUs.
func (x *exchange) isMeasured(now time.Time) bool {
	return !x.backend.lingers && (now.Sub(x.backend.since) >= leastBilled || x.stepsAtOnce()) && x.policy.Meter.Measures()
}

// collect lists the requests that are looked at.
func (b *bill) collect(h *Handler, now time.Time) {
	clear(b.all)
	clear(b.whose)
	b.all, b.whose = b.all[:0], b.whose[:0]
	h.running.Each(func(x *exchange) {
		if !x.isMeasured(now) || now.Before(x.kernel.billed.again) {
			return
		}
		r := host.Running{Number: x.kernel.billed.number, Began: x.backend.since, Accepted: x.kernel.billed.accepted, Work: x.kernel.billed.work}
		if r.Work == nil {
			r.Estimate = x.life.CPUSoFar(now)
			if c := x.client.conn.call.Conn(); c != nil {
				r.Conn = net.Conn(c)
			} else {
				r.Opening = x.client.conn.call.IsOpening()
			}
		}
		r.Due, r.StepAt = h.priorities.isDue(now, x)
		b.all, b.whose = append(b.all, r), append(b.whose, x)
	})
}

func (x *exchange) takeReading(now time.Time, r *host.Running) {
	x.kernel.billed.work, x.kernel.billed.accepted = r.Work, r.Accepted
	switch r.Is {
	case host.WorkRead, host.WorkGone:
		x.life.Measured(now, r.Reading)
		if r.Work == nil { // it waits to be accepted
			x.kernel.billed.again = now.Add(min(mostUnserved, now.Sub(x.backend.since)/8))
		}
	case host.WorkLost:
		x.life.Lost(now)
	case host.WorkUnknown:
		x.life.Lost(now) // the backend was seen not to have accepted it
		x.kernel.billed.again = now.Add(min(mostBlind, now.Sub(x.backend.since)/8))
	default: // nothing is new
	}
}

// mostBlind is the longest pause between two looks for the worker of a request. The longer a
// request runs, the longer the pause: some are open for hours, and thousands at a time.
const mostBlind = 10 * time.Second

// mostUnserved is the same while no worker has accepted the request: until one is seen, it pays
// for none.
const mostUnserved = 200 * time.Millisecond

// loseAll has all requests be estimated from now on.
func (h *Handler) loseAll(now time.Time) {
	h.running.Each(func(x *exchange) {
		x.kernel.billed.work = nil
		x.life.Lost(now)
	})
}

// readLast reads a request's worker as the request ends, if it is known. That of one that
// ends at once is not.
func (x *exchange) readLast(now time.Time) {
	if x.kernel.billed.ended.Swap(true) {
		return
	}
	if now.Sub(x.backend.since) < leastBilled {
		return
	}
	var w *host.Work
	x.listed.Exclusively(func() { w = x.kernel.billed.work })
	if w == nil {
		return
	}
	if r, ok := w.End(now); ok {
		x.life.Measured(now, r)
	} else {
		x.life.Lost(now)
	}
}

// giveNumber gives the request a number, if workers may say which one they serve. It is not
// yet among what runs.
func (x *exchange) giveNumber() {
	if t := x.handler.bill.tracker.Load(); t != nil && t.Listens() && x.policy.Meter.Measures() {
		x.kernel.billed.number, x.kernel.billed.text = t.Numbers.Next()
	}
}

// setNumber sends the backend the request's number, if it has one.
func (x *exchange) setNumber() {
	if x.kernel.billed.text != "" {
		x.backend.asked.fields.Set(numberHeader, x.kernel.billed.text)
	}
}
