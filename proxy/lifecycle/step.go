package lifecycle

import (
	"time"

	"tempomat/limiter"
)

// While a request computes, the priority of the process that works on it goes down in steps. The kernel then
// gives the CPUs to requests that have used less. This is a multilevel feedback queue (Corbató et al., 1962) in
// the kernel. If the sizes of requests are unknown and differ by orders of magnitude, it is close to the best
// order (foreground-background, see Nuyens and Wierman, 2008).
//
// For pages of similar sizes it is the worst order: a page of 150 ms that is two thirds done would yield to
// each page that begins. Therefore the CPU time that a request may use before it steps down depends on its
// client, as does its rank in the queue.
const (
	// firstStep is the CPU time after which a request steps down if its client had more than its share, or is a
	// stranger. It equals the upper bound of the queue's smallest size. Each further step comes at four times
	// the CPU time of the step before.
	firstStep = 25 * time.Millisecond
	perStep   = 4
	// steps is the number of steps. See host.StepDown for their effect in the kernel.
	steps = 3
	// withinShare is the factor that delays a request's steps if its client is within its share. It is
	// multiplied by the client's standing: a page that a person waits for takes its first step after 200 to 800
	// ms. Debt of the request's keys makes the factor smaller, because debt raises the price.
	withinShare = 4
	// mostWithin is the last step of a request whose site has used less than its share. If the expensive
	// pages of such a site took all steps, the site would never get its share.
	mostWithin = 1
	// long is the CPU time after which a request takes the last step, even without debt, if its client or its
	// site has had more than its share.
	long = 200 * time.Millisecond
	// foresight is the part of a sure guess that counts as used from the beginning. With one half, a newcomer's
	// page still has a higher priority than a page that is three times as expensive, and a guess of twice the
	// real cost doesn't rank a request below a long one.
	foresight = 0.5
	// noDebt is the price (Verdict.CostMultiplier) of a request whose keys have no debt.
	noDebt = 2
)

// Step returns how many steps down the request's process must be after it has used the given CPU time: 0 to 3.
// The result never decreases as used grows. Exempt requests never step down, nor does any request while the
// queue delays none. Any goroutine may call it after Begin.
func (l *Life) Step(used time.Duration) int {
	if l.isLeftAlone() {
		return 0
	}
	return l.pace().step(used)
}

// UntilStep returns how much more CPU time the request may use before its next step; a day: there is no
// further step. Any goroutine may call it after Begin.
func (l *Life) UntilStep(used time.Duration) time.Duration {
	if l.isLeftAlone() {
		return noStep
	}
	p := l.pace()
	if step := p.step(used); step < p.last() {
		return p.at(step+1) - used
	}
	return noStep
}

// isLeftAlone reports whether the request never steps down, because it is exempt or didn't pass the queue, or
// because the queue delays no request.
func (l *Life) isLeftAlone() bool {
	return l.ticket == nil || l.Verdict.CostMultiplier == 0 || l.Verdict.Undelayed
}

// noStep is a CPU time that no request reaches.
const noStep = 24 * time.Hour

// Foreseen returns the CPU time that counts as used from the beginning if the request's client or site has
// used more than its share. Otherwise other requests would share a CPU with a page that is sure to be long,
// until it has used enough CPU time to step down. Foreseen returns 0 if the guess isn't sure. Any goroutine
// may call it after Begin.
func (l *Life) Foreseen() time.Duration {
	if l.isLeftAlone() || !l.sure {
		return 0
	}
	if p := l.pace(); !p.overShare() && !p.SiteAhead {
		return 0
	}
	return time.Duration(float64(l.Guess) * foresight)
}

// pace is the data that determines a request's next steps.
type pace struct {
	*limiter.Verdict
	standing float64
	passed   bool // whether the request brought a newcomer's pass
}

func (l *Life) pace() pace { return pace{&l.Verdict, l.Who.Standing, l.Passed()} }

// overShare reports whether the client had more than its share, or is a stranger. A newcomer that came back
// with a pass is treated like a person who waits for the first page. A crawler that comes back becomes known
// soon, and its pass then has no effect.
func (p pace) overShare() bool { return p.Ahead && (p.Known || !p.passed) }

func (p pace) step(used time.Duration) (step int) {
	for last := p.last(); step < last && used >= p.at(step+1); {
		step++
	}
	return step
}

// last returns the last step that the request takes.
func (p pace) last() int {
	if p.SiteWithin {
		return mostWithin
	}
	return steps
}

// at returns the CPU time at which a request takes a step, 1 to 3. If its site has had more than its share,
// the request takes all steps together with the first one, so that the other sites at once get back the CPU
// time that this site uses. There is an exception: if the client is within its own share, the request takes
// the last step only when it is long. Otherwise visitors of the site would have the same low priority as
// its crawlers.
func (p pace) at(step int) time.Duration {
	at := p.firstStepAt()
	for range step - 1 {
		at *= perStep
	}
	switch {
	case p.SiteAhead && (p.overShare() || step < steps):
		return min(at, firstStep)
	case (p.SiteAhead || p.overShare()) && step == steps:
		return min(at, long)
	}
	return at
}

// firstStepAt returns the CPU time at which a request takes its first step.
func (p pace) firstStepAt() time.Duration {
	x := 1.0
	if (p.Known || p.passed) && !p.overShare() {
		x = withinShare * max(p.standing, leastStanding)
	}
	return time.Duration(float64(firstStep) * x * noDebt / max(noDebt, float64(p.CostMultiplier)))
}

// leastStanding is the standing of a client that falsely claims to be a robot.
const leastStanding = 0.5
