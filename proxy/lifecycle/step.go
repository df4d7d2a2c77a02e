package lifecycle

import (
	"time"

	"tempomat/limiter"
)

// While a request computes, the priority of the process that works on it goes down in
// steps: the kernel then gives the CPUs to what has used less of them. It is a multilevel
// feedback queue (Corbató et al., 1962) in the kernel, and near to what is best for sizes
// that nobody knows and that differ by orders of magnitude (foreground-background, see
// Nuyens and Wierman, 2008).
//
// It is the worst there is for sizes that are alike: a page of 150 ms that is two thirds
// done would stand back for each one that begins. So how much a request may use until
// it steps down goes by who asks, as its rank at the gate does.
const (
	// firstStep is what a request uses until it steps down whose client had more than its
	// share, or is a stranger: as much as the shortest rung of the ladder has. The next steps
	// are at four times as much each.
	firstStep = 25 * time.Millisecond
	perStep   = 4
	// steps there are: see package priority.
	steps = 3
	// withinShare is by how much later it steps down if its client is within its share. That
	// is times its standing: a page that a person waits for stays where it is until it has
	// used 200 to 800 ms. And less by what its keys owe, as its price is.
	withinShare = 4
	// mostWithin is the last step of a request whose site has less than its share. If its pages are
	// dearer than the others', and gave way to them, it would not get that.
	mostWithin = 1
	// long is what a request has used that takes the last step if its client had more than its
	// share, whatever that owes.
	long = 200 * time.Millisecond
	// foresight is the part of what a request will surely cost that counts as used from the
	// beginning. So the page of a newcomer stays above one that is three times as dear, and a guess
	// that is wrong by half has nobody stand back further than what is long does.
	foresight = 0.5
	// noDebt is the price of who owes nothing.
	noDebt = 2
)

// Step is how far the process that works on the request is to step down which has used so
// much of the CPUs for it: 0, not at all, to 3. It never decreases as more is used. An
// exempt request never steps down. It may be called by anybody after Begin.
func (l *Life) Step(used time.Duration) int {
	if l.ticket == nil {
		return 0
	}
	return stepOf(&l.Verdict, l.Who.Standing, used)
}

// UntilStep is how much more CPU time it takes until the next step; noStep: there is none
// any more.
func (l *Life) UntilStep(used time.Duration) time.Duration {
	if l.ticket == nil {
		return noStep
	}
	if step := l.Step(used); step < lastStep(&l.Verdict) {
		return stepAt(&l.Verdict, patienceOf(&l.Verdict, l.Who.Standing), step+1) - used
	}
	return noStep
}

// noStep is for ever.
const noStep = 24 * time.Hour

// Foreseen is what counts as used from the beginning, of who had more than its share, or whose site has: why should
// others share a CPU with a page that is sure to be long, until it is? 0: nothing is sure. It may be
// called by anybody after Begin.
func (l *Life) Foreseen() time.Duration {
	if l.ticket == nil || !l.sure || !l.Verdict.Ahead && !l.Verdict.SiteAhead {
		return 0
	}
	return time.Duration(float64(l.Guess) * foresight)
}

func stepOf(v *limiter.Verdict, standing float64, used time.Duration) (step int) {
	for patience, last := patienceOf(v, standing), lastStep(v); step < last && used >= stepAt(v, patience, step+1); {
		step++
	}
	return step
}

// lastStep is the last one that a request takes.
func lastStep(v *limiter.Verdict) int {
	if v.SiteWithin {
		return mostWithin
	}
	return steps
}

// stepAt is what a request has used that takes a step, 1 to 3. Whose site has more than its share
// takes all with the first one: none of that site's pages stands back behind another of it for that,
// and the sites that left it the CPUs find these as if it were not there.
func stepAt(v *limiter.Verdict, patience time.Duration, step int) time.Duration {
	at := patience
	for range step - 1 {
		at *= perStep
	}
	switch {
	case v.SiteAhead:
		return min(at, firstStep)
	case v.Ahead && step == steps:
		return min(at, long)
	}
	return at
}

// patienceOf is what a request may use until its first step.
func patienceOf(v *limiter.Verdict, standing float64) time.Duration {
	x := 1.0
	if v.Known && !v.Ahead {
		x = withinShare * max(standing, leastStanding)
	}
	return time.Duration(float64(firstStep) * x * noDebt / max(noDebt, float64(v.CostMultiplier)))
}

// leastStanding is that of who claims to be what it is not.
const leastStanding = 0.5
