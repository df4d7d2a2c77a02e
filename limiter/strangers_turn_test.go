package limiter

import (
	"math"
	"testing"
	"time"
)

// TestStrangersShare: at least what is configured, and half of what all others have who want
// something.
func TestStrangersShare(t *testing.T) {
	for name, x := range map[string]struct {
		active, was, want float64
		work              int
	}{
		"nobody else":            {0, 0.1, leastStrangers, 0},
		"few others":             {0.4, 0.1, leastStrangers, 0},
		"many others":            {2, 0.1, 1, 0},
		"many beside themselves": {2.5, 0.5, 1, 1},
	} {
		s := &site{clock: clock{active: x.active}}
		s.strangers = strangers{flow: flow{share: x.was, work: x.work}}
		before := s.clock.active - float64(x.work)*x.was
		if s.strangers.reshare(s, false); s.strangers.share != x.want || math.Abs(s.clock.active-before-float64(x.work)*x.want) > 1e-9 {
			t.Errorf("%s: a share of %g of %g, want %g", name, s.strangers.share, s.clock.active, x.want)
		}
	}
}

// TestStrangersTurns: a level's turn began when somebody came, or with the last that went; what
// was missed counts for a few requests, and what was had too much as far as for all others.
func TestStrangersTurns(t *testing.T) {
	const now, e = 100.0, 0.2 // 0.1 CPU-seconds of a share of a half
	for name, x := range map[string]struct{ turn, virtualTime, order, lead, went float64 }{
		"its turn is now":     {now, now, now + 2*e, 0, now},
		"it was just before":  {now - 2*e, now, now, 0, now - e},
		"long ago":            {3, now, now - strangersCredit*e + 2*e, 0, now - strangersCredit*e + e},
		"is yet to come":      {now + 1, now, now + 1 + 2*e, 0, now},
		"they had more":       {now, now + 3, now + 2*e, 3, now},
		"they had far more":   {now, now + 1e6, now + 2*e, 1e6, now},
		"they had less, once": {now, 3, now + 2*e, 0, now},
	} {
		s := &site{clock: clock{systemVirtualTime: now}}
		s.strangers.flow = flow{share: 0.5, virtualTime: x.virtualTime}
		q := &levelQueue{turn: x.turn}
		r := &Ticket{charge: charge{guess: 0.1}, queueEntry: queueEntry{costMultiplier: 2, site: s}}
		order, lead, rank := s.strangers.order(s, q, r), s.strangers.lead(s), s.strangers.rank(s, q, r)
		if q.went(r); math.Abs(order-x.order) > 1e-9 || math.Abs(lead-x.lead) > 1e-9 || rank != order+lead || math.Abs(q.turn-x.went) > 1e-9 {
			t.Errorf("%s: order %g, lead %g, rank %g, then the turn is at %g; want %g, %g, and %g", name, order, lead, rank, q.turn, x.order, x.lead, x.went)
		}
	}
}

// TestWhoGoesFirstOfStrangers: each of these goes before the next one, whenever it came.
func TestWhoGoesFirstOfStrangers(t *testing.T) {
	of := func(change func(*Ticket)) uint8 {
		x := &Ticket{queueEntry: queueEntry{client: new(client), level: 2}}
		change(x)
		return new(gate).classOf(x)
	}
	answers := func(n, running int32, stale bool) func(*Ticket) {
		return func(x *Ticket) { x.client.answers, x.client.running, x.stale = n, running, stale }
	}
	part := func(of level) uint8 {
		return new(gate).classOf(&Ticket{request: request{follows: true}, queueEntry: queueEntry{client: &client{answers: 3}, level: of}})
	}
	if cookie := of(func(x *Ticket) { x.passed, x.client.answers = true, 3 }); part(level(lightRung)) != cookie || part(fresh) != cookie {
		t.Errorf("a part of a page is of class %d, of an unknown cost %d; what comes back with a cookie %d", part(level(lightRung)), part(fresh), cookie)
	}
	if is, want := part(level(passRung)), of(answers(3, 0, false)); is != want {
		t.Errorf("an expensive part is of class %d, want %d", is, want)
	}
	order := []struct {
		what string
		of   uint8
	}{
		{"came back with a cookie, had answers", of(func(x *Ticket) { x.passed, x.client.answers = true, strangerAnswers })},
		{"had no answer", of(answers(0, 0, false))},
		{"no longer patient", of(answers(0, 0, true))},
		{"had one", of(answers(1, 0, false))},
		{"has had two, or has them now", of(answers(1, 1, false))},
		{"no longer patient with three", of(answers(3, 0, true))},
		{"had four", of(answers(4, 0, false))},
		{"had four, and is no longer patient", of(answers(9, 9, true))},
		{"nobody looks at it yet", of(func(x *Ticket) { x.prefetch, x.passed = true, true })},
	}
	for i := 1; i < len(order); i++ {
		if order[i-1].of >= order[i].of {
			t.Errorf("%q is of class %d, and %q of %d", order[i-1].what, order[i-1].of, order[i].what, order[i].of)
		}
	}
}

// TestTheNewestStrangerGoesFirst of those who have had few answers, once somebody has lost patience; who has had them,
// or has them now, is served in turn.
func TestTheNewestStrangerGoesFirst(t *testing.T) {
	for _, x := range []struct {
		answers, running int32
		newest           bool
		want             float64
	}{{0, 0, false, 7}, {0, 0, true, -7}, {4, 0, true, -7}, {5, 0, true, 7}, {3, 2, true, 7}} {
		s := &site{strangers: strangers{newest: x.newest}}
		r := &Ticket{queueEntry: queueEntry{order: 7, site: s, client: &client{answers: x.answers, running: x.running}}}
		if new(gate).line(r); r.rank != x.want {
			t.Errorf("with %d answers, and %d to come, newest first %t: its place is %g, want %g", x.answers, x.running, x.newest, r.rank, x.want)
		}
	}
}

// TestWhoLosesPatience goes behind those who have some, also where another one has lost it before; and the newest go first
// for a while.
func TestWhoLosesPatience(t *testing.T) {
	g := shaped()
	s := &g.home
	for i := range 2 { // the second one has just come
		x := &Ticket{queueEntry: queueEntry{stranger: true, site: s, client: &client{address: new(address)}, order: uint64(i + 1), asked: time.Duration(i) * patience}}
		g.enqueue(x)
		g.line(x)
		s.queues[0].strange.push(x)
	}
	first, second := g.all.first, g.all.last
	s.strangers.newest, s.strangers.newestTo = true, patience+1
	g.losePatience(patience - 1)
	if first.stale || g.patient != first {
		t.Error("one has lost patience before its time")
	}
	g.losePatience(patience)
	if !first.stale || second.stale || g.patient != second || s.queues[0].strange.top() != second || first.class <= second.class {
		t.Errorf("the one that waits for too long is stale %t, of class %d; the other one of %d", first.stale, first.class, second.class)
	}
	until := patience + impatientFor
	if s.strangers.newestTo != until {
		t.Errorf("the newest go first until %v, want %v", s.strangers.newestTo, until)
	}
	g.patient = nil // the other one has left
	for at, want := range map[time.Duration]bool{until - 1: true, until: false} {
		if g.losePatience(at); s.strangers.newest != want {
			t.Errorf("at %v the newest goes first: %t", at, !want)
		}
	}
}
