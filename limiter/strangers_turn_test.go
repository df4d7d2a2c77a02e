package limiter

import (
	"math"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestStrangersShare: the strangers' share is strangersShare of the machine, or of the sum of the shares of all
// other clients with work if that is more.
func TestStrangersShare(t *testing.T) {
	for name, x := range map[string]struct {
		active, was, want float64
		work              int
	}{
		"no others":                        {0, 0.1, strangersShare, 0},
		"few others":                       {0.4, 0.1, strangersShare, 0},
		"many others":                      {2, 0.1, 1, 0},
		"many others, strangers have work": {2.5, 0.5, 1, 1},
	} {
		s := &site{clock: clock{active: x.active}}
		s.strangers = strangers{flow: flow{share: x.was, work: x.work}}
		before := s.clock.active - float64(x.work)*x.was
		if s.strangers.reshare(s); s.strangers.share != x.want || math.Abs(s.clock.active-before-float64(x.work)*x.want) > 1e-9 {
			t.Errorf("%s: a share of %g of %g, want %g", name, s.strangers.share, s.clock.active, x.want)
		}
	}
}

// TestStrangersTurns: a level's turn began when a stranger arrived, or when the previous one started. Missed
// service counts for only a few requests. Service beyond the strangers' share counts as for other clients.
func TestStrangersTurns(t *testing.T) {
	const now, e = 100.0, 0.2 // 0.1 CPU-seconds divided by a share of a half
	for name, x := range map[string]struct{ turn, virtualTime, order, rank, went float64 }{
		"turn is now":                             {now, now, now + 2*e, now + 2*e, now},
		"turn was just before":                    {now - 2*e, now, now, now, now - e},
		"turn was long ago":                       {3, now, 3 + 2*e, now - strangersCredit*e + 2*e, now - strangersCredit*e + e},
		"turn is yet to come":                     {now + 1, now, now + 1 + 2*e, now + 1 + 2*e, now},
		"strangers had more than their share":     {now, now + 3, now + 2*e, now + 3 + 2*e, now},
		"strangers had far more than their share": {now, now + 1e6, now + 2*e, now + 1e6 + 2*e, now},
		"strangers had less than their share":     {now, 3, now + 2*e, now + 2*e, now},
	} {
		s := &site{clock: clock{systemVirtualTime: now}}
		s.strangers.flow = flow{share: 0.5, virtualTime: x.virtualTime}
		q := &levelQueue{turn: x.turn}
		r := &Ticket{charge: charge{guess: 0.1}, queueEntry: queueEntry{costMultiplier: 2, site: s}}
		order, rank := s.strangers.order(q, r), s.strangers.rank(s, q, r)
		if q.went(r); math.Abs(order-x.order) > 1e-9 || math.Abs(rank-x.rank) > 1e-9 || math.Abs(q.turn-x.went) > 1e-9 {
			t.Errorf("%s: order %g, rank %g, then the turn is at %g; want %g, %g, and %g", name, order, rank, q.turn, x.order, x.rank, x.went)
		}
	}
}

// TestTurnOfALevelThatWasEmpty: when a stranger arrives at a level where none waited, the level takes the
// earliest turn of the levels at which strangers wait, but not one before its own turn or after the clock.
func TestTurnOfALevelThatWasEmpty(t *testing.T) {
	for name, x := range map[string]struct{ its, others, want float64 }{
		"no stranger waits":                     {its: 5, others: -1, want: 100},
		"other levels have waited for long":     {its: 5, others: 40, want: 40},
		"the level just had its turn":           {its: 70, others: 40, want: 70},
		"the other level is ahead of the clock": {its: 5, others: 130, want: 100},
	} {
		s := &site{clock: clock{systemVirtualTime: 100}}
		s.queues[2].turn = x.its
		if x.others >= 0 {
			s.queues[4].turn, s.queues[5].turn = x.others+1, x.others
			for _, level := range []level{4, 5} {
				s.queues[level].strange.push(new(Ticket))
			}
		}
		shaped().put(&Ticket{queueEntry: queueEntry{site: s, client: new(client), level: 2, stranger: true}})
		testkit.Same(t, x.want, s.queues[2].turn, "%s: the level's turn", name)
	}
}

// TestOrderOfStrangers: each request in the list goes before the next one, whatever the order of arrival.
func TestOrderOfStrangers(t *testing.T) {
	of := func(change func(*Ticket)) uint8 {
		x := &Ticket{queueEntry: queueEntry{client: new(client), level: 2}}
		change(x)
		return classOf(x)
	}
	answers := func(n, running int32) func(*Ticket) {
		return func(x *Ticket) { x.client.answers, x.client.running = n, running }
	}
	part := func(of level) uint8 {
		return classOf(&Ticket{request: request{follows: true}, queueEntry: queueEntry{client: &client{answers: 3}, level: of}})
	}
	if cookie := of(func(x *Ticket) { x.passed, x.client.answers = true, 3 }); part(level(lightRung)) != cookie || part(fresh) != cookie {
		t.Errorf("a part of a page has class %d, a part of unknown cost class %d, a request with a cookie class %d", part(level(lightRung)), part(fresh), cookie)
	}
	testkit.Same(t, of(answers(3, 0)), part(level(passRung)), "the class of an expensive part")
	order := []struct {
		what string
		of   uint8
	}{
		{"came back with a cookie, five answers", of(func(x *Ticket) { x.passed, x.client.answers = true, strangerAnswers })},
		{"came back with a cookie, hundreds running", of(func(x *Ticket) { x.passed, x.client.running = true, 500 })},
		{"no answer", of(answers(0, 0))},
		{"one answer", of(answers(1, 0))},
		{"two answers, one of them running", of(answers(1, 1))},
		{"three answers", of(answers(3, 0))},
		{"four answers", of(answers(4, 0))},
		{"nine answers", of(answers(9, 0))},
		{"nine answers, nine running", of(answers(9, 9))},
		{"hundreds running", of(answers(9, 500))},
		{"prefetch", of(func(x *Ticket) { x.prefetch, x.passed = true, true })},
	}
	for i := 1; i < len(order); i++ {
		if order[i-1].of >= order[i].of {
			t.Errorf("%q has class %d, and %q has class %d", order[i-1].what, order[i-1].of, order[i].what, order[i].of)
		}
	}
}

// TestTheNewestStrangerGoesFirst: once a stranger has lost patience, the newest of those with few answers goes
// first. Strangers with more answers keep the order of arrival. Running requests count as answers.
func TestTheNewestStrangerGoesFirst(t *testing.T) {
	for _, x := range []struct {
		answers, running int32
		newest           bool
		want             float64
	}{{0, 0, false, 7}, {0, 0, true, -7}, {4, 0, true, -7}, {5, 0, true, 7}, {3, 2, true, 7}} {
		s := &site{strangers: strangers{newest: x.newest}}
		r := &Ticket{queueEntry: queueEntry{order: 7, site: s, client: &client{answers: x.answers, running: x.running}}}
		if r.line(); r.rank != x.want {
			t.Errorf("with %d answers, %d running requests, newest first %t: the rank is %g, want %g", x.answers, x.running, x.newest, r.rank, x.want)
		}
	}
}

// TestLosingPatience: an impatient request goes after patient ones, in the order of arrival, even if another one lost
// patience earlier. The newest go first for a while.
func TestLosingPatience(t *testing.T) {
	g := shaped()
	s := &g.home
	s.strangers.newest, s.strangers.newestTo = true, patience+1
	for i := range 2 { // the second one has just arrived
		x := &Ticket{queueEntry: queueEntry{stranger: true, site: s, client: &client{address: new(address)}, order: uint64(i + 1), asked: time.Duration(i) * patience}}
		g.enqueue(x)
		x.line()
		s.queues[0].strange.push(x)
	}
	first, second := g.all.first, g.all.last
	g.losePatience(patience - 1)
	if g.patient != first {
		t.Error("a request has lost patience too early")
	}
	g.losePatience(patience)
	if g.patient != second || first.rank != 1 || s.queues[0].strange.top() != second {
		t.Error("the request that has waited too long hasn't lost patience, or not its place")
	}
	until := patience + usedFor
	testkit.Same(t, until, s.strangers.newestTo, "the newest go first until")
	g.patient = nil // the other one has disconnected
	for at, want := range map[time.Duration]bool{until - 1: true, until: false} {
		if g.losePatience(at); s.strangers.newest != want {
			t.Errorf("at %v the newest goes first: %t", at, !want)
		}
	}
}
