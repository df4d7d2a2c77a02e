package proxy

import (
	"sync/atomic"
	"time"

	"tempomat/cpuaccount/process"
	"tempomat/proxy/host"
)

// Stepper lowers priorities of processes and puts them back: host.Keeper.
type Stepper interface {
	// Step lowers that of the process which serves a request.
	Step(h *host.Hold, id process.ID, step int) error
	// End puts it back as it was.
	End(h *host.Hold)
	// Mend puts a process back that another proxy has left behind.
	Mend(id process.ID)
}

// priorities have the processes that serve requests step down as these compute.
type priorities struct {
	stepper atomic.Pointer[stepping] // nil: they do not
	wishes  []wish                   // of the goroutine that looks: Bill

	preempts bool // what the limiter was told; of that goroutine as well
}

// stepping is a Stepper, and a function that is called once if it fails.
type stepping struct {
	Stepper
	failed func(error)
	over   atomic.Bool // it failed
}

// wish is a step that is to be done.
type wish struct {
	*lowered
	to int // no step: it is to be as it was
	of process.ID
}

// isBack reports whether the process is to be as it was, also as another one serves the request now.
func (w *wish) isBack() bool { return w.to == 0 || w.id != (process.ID{}) && w.id != w.of }

// SetStepper has the processes of requests that compute for long step down from now on; with
// nil, they do not. The one before is not used any more by requests that come; the caller
// closes it. failed is told, once, that it may not change priorities: then it is given up.
func (h *Handler) SetStepper(s Stepper, failed func(error)) {
	if s == nil {
		h.priorities.stepper.Store(nil)
		return
	}
	h.priorities.stepper.Store(&stepping{Stepper: s, failed: failed})
}

// inForce is what processes step down by; nil: they do not.
func (p *priorities) inForce() *stepping {
	if s := p.stepper.Load(); s != nil && !s.over.Load() {
		return s
	}
	return nil
}

// Steps reports whether the nice values of the backend's processes are raised.
func (h *Handler) Steps() bool { return h.priorities.inForce() != nil }

// isDue reports whether a request's process may have to step down now, and of what it has to
// have used for that; 0: it is not to step down.
func (p *priorities) isDue(now time.Time, x *exchange) (due bool, at time.Duration) {
	if p.inForce() == nil {
		return false, 0
	}
	if x.kernel.stepDue.IsZero() {
		return false, x.life.UntilStep(0)
	}
	return !now.Before(x.kernel.stepDue), x.kernel.stepAt
}

// stepsAtOnce reports whether the request's process steps down before it has used anything. That
// of a request that may end before the first look doesn't.
func (x *exchange) stepsAtOnce() bool {
	f := x.life.Foreseen()
	return f >= leastBilled && x.life.Step(f) > 0 && x.handler.priorities.inForce() != nil
}

// follow notes what is to become of the priority of a request's process by what was read of it.
func (p *priorities) follow(now time.Time, x *exchange, r *host.Running) {
	switch {
	case r.Work == nil: // no worker has accepted it yet
	case r.Is == host.WorkRead:
		p.consider(now, x, r.Work.ID(), r.Reading.CPU)
		x.kernel.billed.computes = r.Reading.CPU+r.Reading.Queued >= now.Sub(x.backend.since)/computesPart
	case r.Is == host.WorkGone, r.Is == host.WorkLost: // whom it serves now is not to wait for this one's sake
		p.release(x)
		x.kernel.billed.computes = false
	}
}

// release notes that the process of a request is to be as it was.
func (p *priorities) release(x *exchange) {
	if x.kernel.lowered == nil {
		return
	}
	p.wishes = append(p.wishes, wish{lowered: x.kernel.lowered})
	x.kernel.lowered = nil
	x.life.Yield(host.StepWeight(0))
}

// consider notes that the process of a request should step down, if it should, by what it
// has used. It is called while the request cannot end (see front.Roster), and so asks nothing
// of the system.
func (p *priorities) consider(now time.Time, x *exchange, id process.ID, used time.Duration) {
	s := p.inForce()
	if s == nil || x.kernel.lowered != nil && x.kernel.lowered.gaveUp {
		x.life.Yield(host.StepWeight(0)) // it is as it was, or could not step down
	}
	if s == nil {
		return
	}
	used = p.counts(now, x, used)
	until := x.life.UntilStep(used)
	x.kernel.stepAt, x.kernel.stepDue = x.kernel.streamFrom+used+until, now.Add(until) // it has one thread, and so no step before
	step := x.life.Step(used)
	if step == 0 {
		return
	}
	if x.kernel.lowered != nil && x.kernel.lowered.by != s {
		p.wishes = append(p.wishes, wish{lowered: x.kernel.lowered})
		x.kernel.lowered = nil
	}
	if x.kernel.lowered == nil {
		x.kernel.lowered = &lowered{by: s}
	}
	if !x.kernel.lowered.gaveUp && (step > x.kernel.lowered.step || id != x.kernel.lowered.id) {
		p.wishes = append(p.wishes, wish{x.kernel.lowered, step, id})
		x.life.Yield(host.StepWeight(step))
	}
}

// forgives is for how long it counts against a stream what its process has used.
const forgives = 10 * time.Second

// counts is the part of a request's use that counts for its steps: all of it, or what is foreseen
// if that is more, but for a stream only recent use. Otherwise a stream with an event an hour would
// one day be at the lowest priority, for as long as the connection lasts. A process is put back
// after a time in which it used too little for a step; one that calls its answer a stream and goes
// on computing stays where it is.
func (p *priorities) counts(now time.Time, x *exchange, used time.Duration) time.Duration {
	if !x.backend.work.isStream() {
		return max(used, x.life.Foreseen())
	}
	if x.kernel.streamSince.IsZero() {
		x.kernel.streamSince = now
	}
	if now.Sub(x.kernel.streamSince) >= forgives {
		quiet := x.life.Step(used-x.kernel.streamFrom) == 0
		x.kernel.streamSince, x.kernel.streamFrom = now, used
		if quiet && x.kernel.lowered != nil && x.kernel.lowered.step > 0 {
			p.release(x)
		}
	}
	return max(0, used-x.kernel.streamFrom)
}

// tellPreempts tells the limiter whether most requests at the backend step down when they have to.
// One whose process is unknown does not.
func (h *Handler) tellPreempts(known, unknown int) {
	p := &h.priorities
	if yes := p.inForce() != nil && known > unknown; yes != p.preempts {
		p.preempts = yes
		h.limiter.Preempts(yes)
	}
}

// mend puts back what another proxy has left behind, of the processes that were found now.
func (p *priorities) mend(found []process.ID) {
	s := p.inForce()
	if s == nil {
		return
	}
	for _, id := range found {
		s.Mend(id)
	}
}

// apply does what was noted. A request that has ended in the meantime changes nothing. First all are put back
// that are to be: what one request leaves another one may have.
func (p *priorities) apply() {
	for _, w := range p.wishes {
		if w.isBack() {
			w.by.End(&w.Hold)
			w.gaveUp = true
		}
	}
	for _, w := range p.wishes {
		if w.gaveUp {
			continue
		}
		err := w.by.Step(&w.Hold, w.of, w.to)
		w.id, w.step, w.gaveUp = w.of, w.to, err != nil
		if err != nil && host.IsForbidden(err) && !w.by.over.Swap(true) {
			w.by.failed(err)
		}
	}
	clear(p.wishes) // or what has ended would stay alive
	p.wishes = p.wishes[:0]
}

// endStep puts the process that served a request back, before it gets the next one: the end of
// the answer is here, and its client has not got it yet. A process that never stepped down
// costs nothing. It is called after the last look at the request.
func (x *exchange) endStep() {
	if x.kernel.lowered != nil {
		x.kernel.lowered.by.End(&x.kernel.lowered.Hold)
	}
}
