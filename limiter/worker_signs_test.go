package limiter

import (
	"math"
	"testing"
	"time"
)

// signs is a limiter whose gate takes sixteen workers for usual.
func signs() *Limiter {
	p := fair()
	p.Gate.Workers = 0
	w := newWorld(p)
	w.gate.utilisation = 0.5
	return w.Limiter
}

// TestAcceptQueues: what waits to be accepted at two looks is more than there are workers, unless the CPUs are full; and
// what connections proved before that, was proved by who accepts them and no worker.
func TestAcceptQueues(t *testing.T) {
	for name, x := range map[string]struct {
		before, queued, atLeast, busy int
		use                           float64
		source                        string
		found, want                   int
		blind                         bool
	}{
		"nothing waits":              {before: 0, queued: 0, busy: 12, want: 16},
		"one look":                   {before: 0, queued: 4, busy: 12, want: 16},
		"two looks":                  {before: 4, queued: 4, busy: 12, want: 8},
		"the lesser of both":         {before: 2, queued: 4, busy: 12, want: 10},
		"it was more":                {before: 4, queued: 2, busy: 12, want: 10},
		"more than are there":        {before: 12, queued: 12, busy: 12, want: 16},
		"there are at least":         {before: 4, queued: 4, atLeast: 10, busy: 12, want: 10},
		"the CPUs are full":          {before: 4, queued: 4, busy: 12, use: 0.98, want: 16},
		"they are just not":          {before: 4, queued: 4, busy: 12, use: fullAbove, want: 8},
		"connections proved them":    {before: 4, queued: 4, busy: 12, source: accepted, found: 5, want: 8, blind: true},
		"nobody had found any":       {before: 4, queued: 4, busy: 12, source: accepted, want: 8},
		"something else proved them": {before: 4, queued: 4, busy: 12, source: "prompt answers", found: 5, want: 8},
	} {
		l := signs()
		g := l.gate
		g.busy, g.workers.waited, g.workers.found, g.utilisation = x.busy, x.before, x.found, max(x.use, 0.1)
		if x.source != "" {
			g.workers.source = x.source
		}
		l.Backlog(l.epoch.Add(time.Hour), x.queued, x.atLeast)
		if w := g.workers; w.n != x.want || w.blind != x.blind || w.waited != x.queued || w.looked != time.Hour {
			t.Errorf("%s: %+v, want %d", name, w, x.want)
		}
	}
}

// TestTriedConnections: those that are accepted have a worker each; one that is not refutes more.
func TestTriedConnections(t *testing.T) {
	for name, x := range map[string]struct {
		opened, waiting, busy, found, want int
		trusted                            time.Duration
		blind                              bool
	}{
		"all are accepted":           {opened: 8, busy: 16, want: 24},
		"none more than are known":   {opened: 0, busy: 16, want: 16},
		"one waits":                  {opened: 8, waiting: 1, busy: 16, want: 23},
		"all wait":                   {opened: 8, waiting: 8, busy: 14, want: 14},
		"no more than were found":    {opened: 8, busy: 16, found: 18, trusted: time.Hour + 1, want: 18},
		"found, but that was once":   {opened: 8, busy: 16, found: 18, trusted: time.Hour, want: 24},
		"somebody else accepts them": {opened: 8, busy: 16, blind: true, want: 16},
	} {
		l := signs()
		g := l.gate
		g.busy, g.workers.found, g.workers.trusted, g.workers.blind = x.busy, x.found, x.trusted, x.blind
		l.Tried(l.epoch.Add(time.Hour), x.opened, x.waiting)
		if w := g.workers; w.n != x.want || w.refuted != (x.waiting > 0) || (w.source == accepted) != (x.want > 16) {
			t.Errorf("%s: %+v, want %d", name, w, x.want)
		}
	}
}

// TestFoundWorkers: a number that was found counts, unless one is configured or it is no news.
func TestFoundWorkers(t *testing.T) {
	for name, x := range map[string]struct{ n, most, before, want int }{
		"a number":                  {9, 0, 0, 9},
		"none":                      {0, 0, 0, 16},
		"none any more":             {0, 0, 8, 16},
		"less than none":            {-1, 0, 0, 16},
		"one is configured":         {9, 16, 0, 16},
		"it is no news":             {9, 0, 9, 16},
		"it is another than it was": {9, 0, 8, 9},
	} {
		l := signs()
		l.gate.workers.most, l.gate.workers.found = x.most, x.before
		l.Found(l.epoch.Add(time.Hour), x.n, "a file")
		if w := l.gate.workers; w.n != x.want || (w.n == 9) != (w.source == "a file" && w.trusted == time.Hour+foundFor) {
			t.Errorf("%s: %+v, want %d", name, w, x.want)
		}
	}
}

// TestAnswersThatProve: one in its usual time proves as many workers as were at the backend all the while.
func TestAnswersThatProve(t *testing.T) {
	const began = time.Hour
	for name, x := range map[string]struct {
		trial  trial
		busy   int
		took   time.Duration
		orphan bool
		ended  uint64
		want   int
	}{
		"in its usual time":         {trial: trial{usual: 1, with: 20}, busy: 20, took: second, want: 20},
		"some came later":           {trial: trial{usual: 1, with: 20}, busy: 25, took: second, want: 20},
		"some left meanwhile":       {trial: trial{usual: 1, with: 25}, busy: 20, took: second, want: 20},
		"as many as are known":      {trial: trial{usual: 1, with: 16}, busy: 20, took: second, want: 16},
		"just in time":              {trial: trial{usual: 1, with: 20}, busy: 20, took: 1550 * time.Millisecond, want: 20},
		"late":                      {trial: trial{usual: 1, with: 20}, busy: 20, took: 1551 * time.Millisecond, want: 16},
		"it shows nothing":          {trial: trial{with: 20}, busy: 20, took: second, want: 16},
		"nor if it is over at once": {trial: trial{with: 20}, busy: 20, took: time.Millisecond, want: 16},
		"its client has left":       {trial: trial{usual: 1, with: 20}, busy: 20, took: second, orphan: true, want: 16},
		"a short one, nobody ended": {trial: trial{usual: 0.2, with: 20}, busy: 18, took: second / 5, want: 20},
		"a short one, two ended":    {trial: trial{usual: 0.2, with: 20, ended: 3}, busy: 20, took: second / 5, ended: 5, want: 18},
		"not so short, two ended":   {trial: trial{usual: 0.25, with: 20, ended: 3}, busy: 20, took: second / 5, ended: 5, want: 20},
	} {
		g := signs().gate
		g.busy, g.ended, g.workers.late = x.busy, x.ended, 1
		r := &Ticket{queueEntry: queueEntry{trial: x.trial, began: began, orphan: x.orphan}}
		if g.prove(began+x.took, r); g.workers.n != x.want || r.trial != (trial{}) || g.workers.late != 1 {
			t.Errorf("%s: %d workers are proved, want %d", name, g.workers.n, x.want)
		}
		r.trial.late = true
		if g.prove(began, r); g.workers.late != 0 {
			t.Errorf("%s: one that was late is counted still", name)
		}
	}
	g := signs().gate
	for computing, want := range map[int]float64{0: 3, 2: 3, 3: 4.5, 6: 9} {
		g.load.computing[2], g.load.probing = max(0, computing-1), min(1, computing)
		if got := g.expected(trial{usual: 3}); math.Abs(got-want) > 1e-9 {
			t.Errorf("beside %d on two CPUs 3 s become %g, want %g", computing, got, want)
		}
	}
}

// TestLateAnswers: some light ones at the same time, that take far longer than usual, have no worker.
func TestLateAnswers(t *testing.T) {
	const began, usual = time.Hour, 0.05
	for name, x := range map[string]struct {
		took   time.Duration
		others int // that are late already
		trying int
		level  level
		use    float64
		looked time.Duration
		want   int // workers
		late   bool
	}{
		"it is in time":                {took: 400 * time.Millisecond, others: 2, want: 16},
		"it is late":                   {took: 401 * time.Millisecond, others: 2, want: 9, late: true},
		"the first two":                {took: second, others: 1, want: 16, late: true},
		"while more are tried":         {took: second, others: 0, trying: 1, want: 11, late: true},
		"one that is not short":        {took: second, others: 2, level: level(lightRung + 1), want: 16},
		"the CPUs are full":            {took: second, others: 2, use: 0.98, want: 16, late: true},
		"they are just not full":       {took: second, others: 2, use: fullAbove, want: 9, late: true},
		"somebody sees the queue":      {took: second, others: 2, looked: began + 1, want: 16, late: true},
		"somebody saw it a second ago": {took: second, others: 2, looked: began, want: 9, late: true},
	} {
		g := signs().gate
		g.busy, g.workers.late, g.trying, g.workers.looked = 12, x.others, x.trying, x.looked
		g.utilisation = max(x.use, 0.5)
		r := &Ticket{queueEntry: queueEntry{level: x.level, began: began, trial: trial{usual: usual}}}
		for range 2 { // it is counted once
			g.watch(began+x.took, r)
		}
		late := x.others
		if x.late {
			late++
		}
		if g.workers.n != x.want || r.trial.late != x.late || g.workers.late != late {
			t.Errorf("%s: late %t, %d workers, %d late; want %t, %d, %d", name, r.trial.late, g.workers.n, g.workers.late, x.late, x.want, late)
		}
	}
}

// TestLateAnswersSoonAfterTheStart: nobody has looked at a queue that was never looked at.
func TestLateAnswersSoonAfterTheStart(t *testing.T) {
	g := signs().gate
	g.busy, g.workers.late = 12, 2
	if g.watch(500*time.Millisecond, &Ticket{queueEntry: queueEntry{trial: trial{usual: 0.05}}}); g.workers.n != 9 {
		t.Errorf("there are %d workers, want 9", g.workers.n)
	}
	if g.watch(time.Hour, new(Ticket)); g.workers.late != 3 {
		t.Error("one of which nothing was known is late")
	}
}

// TestWhatARequestMayShow: only what computes, is known, and takes neither a moment nor many seconds.
func TestWhatARequestMayShow(t *testing.T) {
	for name, x := range map[string]struct {
		guess, idle float64
		sure        bool
		level       level
		want        float64
	}{
		"a page":          {0.1, 0.1, true, 2, 0.2},
		"nobody knows":    {0.1, 0, false, 2, 0},
		"a moment":        {0.0019, 0, true, 0, 0},
		"a little longer": {provesFrom, 0, true, 0, provesFrom},
		"three seconds":   {2, 1, true, 4, provesUntil},
		"longer":          {2, 1.1, true, 4, 0},
		"what waits":      {0.1, 1.5, true, waitsAt(2), 0},
	} {
		g := signs().gate
		g.busy, g.ended = 7, 3
		r := &Ticket{guess: x.guess, likelyIdle: x.idle, sure: x.sure, queueEntry: queueEntry{level: x.level}}
		if g.try(r); r.trial != (trial{usual: x.want, with: 7, ended: 3}) {
			t.Errorf("%s: %+v", name, r.trial)
		}
	}
}
