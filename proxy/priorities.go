package proxy

import (
	"sync/atomic"
	"time"

	"tempomat/cpuaccount/process"
	"tempomat/proxy/host"
)

// Stepper lowers the priorities of processes and restores them. host.Keeper implements it.
type Stepper interface {
	// Step lowers the priority of the process that serves a request.
	Step(h *host.Hold, id process.ID, step int) error
	// End restores the process's priority.
	End(h *host.Hold)
	// Mend restores the priority of a process that an earlier proxy left at a lower one.
	Mend(id process.ID)
}

// priorities lowers the priority of processes step by step while a request makes them compute.
type priorities struct {
	stepper atomic.Pointer[stepping] // nil: no priority is changed
	wishes  []wish                   // changes to make; only Bill's goroutine uses them

	preempts bool // last value that the limiter got; only Bill's goroutine uses it
}

// stepping is a Stepper, and a function that is called once if it fails.
type stepping struct {
	Stepper
	failed func(error)
	over   atomic.Bool // whether the Stepper has failed
}

// wish is a change of a priority that apply will make.
type wish struct {
	*lowered
	to int // step to lower the priority to; 0: restore it
	of process.ID
}

// isBack reports whether the priority must be restored, for example because another process serves the request now.
func (w *wish) isBack() bool { return w.to == 0 || w.id != (process.ID{}) && w.id != w.of }

// SetStepper sets the Stepper that lowers priorities from now on; nil: none does. New requests no longer use
// the previous Stepper, which the caller closes. If the Stepper isn't allowed to change priorities, failed is
// called once, and the Stepper isn't used any more.
func (h *Handler) SetStepper(s Stepper, failed func(error)) {
	if s == nil {
		h.priorities.stepper.Store(nil)
		return
	}
	h.priorities.stepper.Store(&stepping{Stepper: s, failed: failed})
}

// inForce returns the Stepper in use; nil: there is none.
func (p *priorities) inForce() *stepping {
	if s := p.stepper.Load(); s != nil && !s.over.Load() {
		return s
	}
	return nil
}

// Steps reports whether the priorities of the backend's processes are lowered.
func (h *Handler) Steps() bool { return h.priorities.inForce() != nil }

// isDue reports whether the priority of a request's process may have to be lowered now.
func (p *priorities) isDue(now time.Time, x *exchange) bool {
	return p.inForce() != nil && !x.backend.work.isStream() && !x.kernel.stepDue.IsZero() && !now.Before(x.kernel.stepDue)
}

// leastBilled is how long a request must be at the backend before its CPU time is measured. The cost
// of shorter ones is estimated, without a system call.
const leastBilled = 20 * time.Millisecond

// stepsAtOnce reports whether the priority of the request's process is lowered before it has used any CPU
// time. It returns false if the request may end before its process is found.
func (x *exchange) stepsAtOnce() bool {
	f := x.life.Foreseen()
	return f >= leastBilled && x.life.Step(f) > 0 && x.handler.priorities.inForce() != nil
}

// computesPart decides which requests count as computing: those whose worker spends at least
// 1/computesPart of its time on a CPU or waiting for one.
const computesPart = 4

// follow decides on the priority of a request's process, after its CPU time was read.
func (p *priorities) follow(now time.Time, x *exchange, r *host.Running) {
	switch {
	case r.Work == nil: // no worker has accepted it yet
	case r.Is == host.WorkRead:
		p.consider(now, x, r.Work.ID(), r.Reading.CPU)
		x.kernel.billed.computes = r.Reading.CPU+r.Reading.Queued >= now.Sub(x.backend.since)/computesPart
	case r.Is == host.WorkGone, r.Is == host.WorkLost: // the process serves another request now
		p.release(x)
		x.kernel.billed.computes = false
	}
}

// release notes that the priority of a request's process must be restored.
func (p *priorities) release(x *exchange) {
	if x.kernel.lowered == nil {
		return
	}
	p.wishes = append(p.wishes, wish{lowered: x.kernel.lowered})
	x.kernel.lowered = nil
	x.life.Yield(host.StepWeight(0))
}

// consider notes whether the priority of a request's process must be lowered, given the CPU time that it has
// used. It makes no system call, because the request can't end while consider runs (see front.Roster).
func (p *priorities) consider(now time.Time, x *exchange, id process.ID, used time.Duration) {
	if x.backend.work.isStream() { // a stream keeps its priority: its little CPU time adds up over hours
		return
	}
	s := p.inForce()
	if s == nil || x.kernel.lowered != nil && x.kernel.lowered.gaveUp {
		x.life.Yield(host.StepWeight(0)) // the process runs at its original priority
	}
	if s == nil {
		return
	}
	used = max(used, x.life.Foreseen())
	x.kernel.stepDue = now.Add(x.life.UntilStep(used)) // with one thread it can't use the CPU time for the next step sooner
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

// tellPreempts tells the limiter whether the priority of most requests at the backend can be lowered. The
// priority can't be lowered if a request's process is unknown.
func (h *Handler) tellPreempts(known, unknown int) {
	p := &h.priorities
	if yes := p.inForce() != nil && known > unknown; yes != p.preempts {
		p.preempts = yes
		h.limiter.Preempts(yes)
	}
}

// mend restores the priorities of processes that were just found, if a proxy that was killed has left them lowered.
func (p *priorities) mend(found []process.ID) {
	s := p.inForce()
	if s == nil {
		return
	}
	for _, id := range found {
		s.Mend(id)
	}
}

// apply makes the noted changes. It restores priorities before it lowers any, because a process that has
// finished one request may already serve another. It doesn't matter if a request has ended in the meantime.
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
	clear(p.wishes) // otherwise requests that have ended would stay in memory
	p.wishes = p.wishes[:0]
}

// endStep restores the priority of the process that served a request. It is called after the last reading of
// the request's CPU time, when the proxy has the end of the answer but the client doesn't yet. The process therefore
// can't have its next request yet.
func (x *exchange) endStep() {
	if x.kernel.lowered != nil {
		x.kernel.lowered.by.End(&x.kernel.lowered.Hold)
	}
}
