package lifecycle

import (
	"time"

	"tempomat/limiter"
)

// While a request computes, the priority of the process that works on it goes down in steps:
// the kernel then gives the CPUs to what has used less of them. It is a multilevel feedback
// queue (Corbató et al., 1962) in the kernel, and close to the best order for unknown sizes
// that differ by orders of magnitude (foreground-background, see Nuyens and Wierman, 2008).
//
// It is the worst order for similar sizes: a page of 150 ms that is two thirds done would stand
// back for each one that begins. So how much a request may use before it steps down depends on
// its client, like its rank at the gate.
const (
	// firstStep is the CPU time after which a request steps down if its client had more than
	// its share, or is a stranger: that of the shortest rung of the ladder. Each next step is
	// at four times as much.
	firstStep = 25 * time.Millisecond
	perStep   = 4
	// steps there are; what each is to the kernel, host.StepDown says.
	steps = 3
	// withinShare is the factor by which it steps down later if its client is within its share.
	// It is multiplied by the client's standing: a page that a person waits for stays where it
	// is until it has used 200 to 800 ms. Its keys' debt reduces it, as it raises the price.
	withinShare = 4
	// mostWithin is the last step of a request whose site has less than its share. If its pages are
	// more expensive than the others', and gave way to them, it would not get that.
	mostWithin = 1
	// long is what a request has used that takes the last step if its client had more than its
	// share, or its site, whatever that owes.
	long = 200 * time.Millisecond
	// foresight is the part of what a request will surely cost that counts as used from the beginning.
	// So the page of a newcomer stays above one that is three times as expensive, and after a guess that
	// is wrong by half, no request stands back further than a long one.
	foresight = 0.5
	// noDebt is the price without debt.
	noDebt = 2
)

// Step is how far the process that works on the request must step down after it used this much CPU time: 0, not at
// all, to 3. It never decreases as more is used. Exempt requests never step down, and none does where the gate delays
// no request. Any goroutine may call it after Begin.
func (l *Life) Step(used time.Duration) int {
	if l.isLeftAlone() {
		return 0
	}
	return l.pace().step(used)
}

// UntilStep is how much more CPU time it takes until the next step; a day: there is no further
// one. Any goroutine may call it after Begin.
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

// isLeftAlone reports whether the request is not to be slowed for others' sake: it is exempt, did not come to
// the gate, or the gate delays no request.
func (l *Life) isLeftAlone() bool {
	return l.ticket == nil || l.Verdict.CostMultiplier == 0 || l.Verdict.Undelayed
}

// noStep is for ever.
const noStep = 24 * time.Hour

// Foreseen is what counts as used from the beginning, for a client that had more than its share, or whose
// site has: others need not share a CPU with a page that is sure to be long until it is. 0: nothing is sure.
// Any goroutine may call it after Begin.
func (l *Life) Foreseen() time.Duration {
	if l.isLeftAlone() || !l.sure {
		return 0
	}
	if p := l.pace(); !p.overShare() && !p.SiteAhead {
		return 0
	}
	return time.Duration(float64(l.Guess) * foresight)
}

// pace is what a request's steps go by.
type pace struct {
	*limiter.Verdict
	standing float64
	passed   bool // it brought a newcomer's pass
}

func (l *Life) pace() pace { return pace{&l.Verdict, l.Who.Standing, l.Passed()} }

// overShare reports whether its client had more than its share, or is a stranger. A newcomer that came back with a
// pass waits for its first page as people do: crawlers that come back, too, are known soon, and go by what they had.
func (p pace) overShare() bool { return p.Ahead && (p.Known || !p.passed) }

func (p pace) step(used time.Duration) (step int) {
	for last := p.last(); step < last && used >= p.at(step+1); {
		step++
	}
	return step
}

// last is the last step that it takes.
func (p pace) last() int {
	if p.SiteWithin {
		return mostWithin
	}
	return steps
}

// at is the use at which a request takes a step, 1 to 3. If its site has more than its share, it takes all of
// them with the first one, so the sites that left it the CPUs find them as if it were not there. But if its
// client is within its own share, it takes the last step only as a long request does: otherwise a crawler
// would only have to ask for a page of another site now and then, and that site's people would share the CPUs
// with the crawl.
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

// firstStepAt is what a request may use until its first step.
func (p pace) firstStepAt() time.Duration {
	x := 1.0
	if (p.Known || p.passed) && !p.overShare() {
		x = withinShare * max(p.standing, leastStanding)
	}
	return time.Duration(float64(firstStep) * x * noDebt / max(noDebt, float64(p.CostMultiplier)))
}

// leastStanding is that of a client that claims to be what it isn't.
const leastStanding = 0.5
