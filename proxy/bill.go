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
	// billEvery is the pause between two readings of the CPU times of all running requests, while some
	// process computes.
	billEvery = 20 * time.Millisecond
	// billSeldom is the pause between two readings while no process computes. No request then waits for a CPU,
	// so readings are less urgent, and most of the cost of a reading is the wake-up.
	billSeldom = 40 * time.Millisecond
	// soon is the pause after which Bill looks for the process of a request whose priority should be
	// lowered at once. By then the backend has usually accepted the connection.
	soon = 2 * time.Millisecond
)

// numberHeader is the field that carries a request's number to the backend, for workers that report which
// request they serve. It is removed from clients' requests and from responses.
const numberHeader = "Tempomat-Request"

// bill is the part of a Handler that measures the CPU time of requests.
type bill struct {
	tracker atomic.Pointer[host.Tracker] // measures CPU time; nil: nothing is measured
	all     []host.Running
	whose   []*exchange
	index   map[*exchange]int
	hurry   chan struct{} // signals that the priority of a request's process should be lowered at once
}

// Bill measures the CPU time that requests use in the backend's workers, until the context ends; then it
// closes the Tracker. It leaves out requests whose meter doesn't use measurements. Only one Bill may run
// at a time.
func (h *Handler) Bill(ctx context.Context, t *host.Tracker) {
	defer t.Close()
	h.bill.tracker.Store(t)
	defer h.bill.tracker.Store(nil)
	ctx, stop := context.WithCancel(ctx)
	var told sync.WaitGroup
	told.Go(func() { t.Run(ctx) })
	defer told.Wait()
	defer stop() // without it, told.Wait would wait forever after a panic
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

// expect makes Bill look soon for the process of a request, if the process's priority must be lowered at
// once.
func (b *bill) expect(x *exchange) {
	if b.tracker.Load() == nil || !x.stepsAtOnce() {
		return
	}
	select {
	case b.hurry <- struct{}{}:
	default: // Bill will look soon anyway
	}
}

// lookAtWork reads the CPU time of running requests, and reports whether any process computes. It runs
// concurrently with the requests: a request may end in the meantime, and its exchange may already serve
// another one.
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
			if x.kernel.lowered == nil || !x.kernel.lowered.gaveUp { // not counted if its priority couldn't be lowered
				known++
			}
			computes = computes || x.kernel.billed.computes
		case now.Sub(x.backend.since) >= leastBilled && !x.backend.work.isStream(): // streams compute little
			unknown++
		}
	})
	h.priorities.apply()
	h.tellPreempts(known, unknown)
	return computes
}

// isMeasured reports whether the CPU time of a request is measured.
func (x *exchange) isMeasured(now time.Time) bool {
	return !x.backend.lingers && (now.Sub(x.backend.since) >= leastBilled || x.stepsAtOnce()) && x.policy.Meter.Measures()
}

// collect lists the requests whose CPU time must be read now.
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
		r.Due = h.priorities.isDue(now, x)
		b.all, b.whose = append(b.all, r), append(b.whose, x)
	})
}

func (x *exchange) takeReading(now time.Time, r *host.Running) {
	x.kernel.billed.work, x.kernel.billed.accepted = r.Work, r.Accepted
	switch r.Is {
	case host.WorkRead, host.WorkGone:
		x.life.Measured(now, r.Reading)
		if r.Work == nil { // no worker has accepted the request yet
			x.kernel.billed.again = now.Add(min(mostUnserved, now.Sub(x.backend.since)/8))
		}
	case host.WorkLost:
		x.life.Lost(now)
	case host.WorkUnknown:
		x.life.Lost(now) // the request's worker can't be found
		x.kernel.billed.again = now.Add(min(mostBlind, now.Sub(x.backend.since)/8))
	default: // nothing new
	}
}

// mostBlind is the longest pause between two attempts to find the worker of a request. The pause grows
// with the request's age, because thousands of requests may be open for hours.
const mostBlind = 10 * time.Second

// mostUnserved is the longest pause while no worker has accepted the request. It is short, because the
// request isn't charged for holding a worker until its worker is found.
const mostUnserved = 200 * time.Millisecond

// loseAll ends the measurement of all requests. The rest of their cost is estimated.
func (h *Handler) loseAll(now time.Time) {
	h.running.Each(func(x *exchange) {
		x.kernel.billed.work = nil
		x.life.Lost(now)
	})
}

// readLast reads the CPU time of a request's worker when the request ends, if the worker is known. It is
// not known for requests that end before Bill looks.
func (x *exchange) readLast(now time.Time) {
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

// giveNumber gives the request a number, if workers may report which request they serve. It is called
// before the request is in Handler.running.
func (x *exchange) giveNumber() {
	if t := x.handler.bill.tracker.Load(); t != nil && t.Listens() && x.policy.Meter.Measures() {
		x.kernel.billed.number, x.kernel.billed.text = t.Numbers.Next()
	}
}

// setNumber sends the request's number, if it has one, to the backend.
func (x *exchange) setNumber() {
	if x.kernel.billed.text != "" {
		x.backend.asked.fields.Set(numberHeader, x.kernel.billed.text)
	}
}
