package shadow

import (
	"strings"
	"time"

	"tempomat/limiter"
	"tempomat/proxy/replay"
	"tempomat/proxy/telemetry"
)

// would is what would have become of a request.
type would uint8

const (
	wouldServe would = iota // at once
	wouldDelay
	wouldRefuse
	wouldRedirect
)

// wouldBe is how many there are, and actions how those are called that do something.
const wouldBe = int(wouldRedirect) + 1

func (w would) String() string {
	return [wouldBe]string{"served", "delayed", "refused", "redirected"}[w]
}

// done is what was done with some requests.
type done struct {
	CPU        float64 // CPU-seconds that they used
	Delayed    uint64  // served Noticed or longer after they came, or left after they had waited for as long
	Refused    uint64
	Redirected uint64
	Waits      waits `json:",omitempty"` // of the delayed
}

func (d *done) merge(o *done) {
	d.CPU += o.CPU
	d.Delayed += o.Delayed
	d.Refused += o.Refused
	d.Redirected += o.Redirected
	d.Waits.merge(o.Waits)
}

// group is the requests of one.
type group struct {
	Requests   uint64
	Was, Would done
}

// tally is what was, and would have been, in an hour of a mode, or in several.
type tally struct {
	Requests uint64
	Lost     uint64           // that are not among them, as there was no room
	Late     uint64           // of the requests, that took longer than the window
	Groups   []group          // by telemetry.Group
	Causes   map[string]*done // what would have delayed or refused them; CPU is that of the refused
	Keys     map[string]*keys `json:"-"`
	Top      map[string][]met // of Keys, as it is saved
}

func newTally() tally {
	return tally{Groups: make([]group, telemetry.Groups), Causes: make(map[string]*done), Keys: make(map[string]*keys)}
}

// mostNames bounds the causes and the classes of a tally, whatever configurations there were.
const mostNames = 64

// busy is what delays or refuses where it is no key's debt.
const busy = "gate"

// heldAnswers is what delays answers, of whichever classes.
const heldAnswers = "held answers"

// cause is why the limiter delayed or refused a request, or sent it back.
func cause(f *replay.Fate) string {
	v := &f.Verdict
	switch {
	case f.TurnedAway:
		return "backend"
	case v.Reason == limiter.Debt && v.Key.Class != "":
		return v.Key.Class
	case f.Held >= noticed && f.Waited < noticed:
		return heldAnswers
	}
	return busy
}

func (t *tally) cause(name string) *done {
	d := t.Causes[name]
	if d == nil {
		if len(t.Causes) >= mostNames {
			name = "others"
			if d = t.Causes[name]; d != nil {
				return d
			}
		}
		d = new(done)
		t.Causes[name] = d
	}
	return d
}

func (t *tally) class(name string) *keys {
	k := t.Keys[name]
	if k == nil {
		if k = new(keys); len(t.Keys) < mostNames {
			t.Keys[strings.Clone(name)] = k
		}
	}
	return k
}

// was counts what became of a request in truth.
func (t *tally) was(s *seen) {
	t.Requests++
	g := &t.Groups[s.group]
	g.Requests++
	g.Was.CPU += s.used.Seconds()
	switch {
	case s.redirected:
		g.Was.Redirected++
	case s.refused:
		g.Was.Refused++
	case s.delay >= noticed:
		g.Was.Delayed++
		g.Was.Waits.add(s.delay)
	}
}

// acted counts that something would have been done with a request, for a reason.
func (t *tally) acted(s *seen, w would, waited time.Duration, reason string) {
	cpu := s.asks.Seconds()
	for _, d := range [...]*done{&t.Groups[s.group].Would, t.cause(reason)} {
		switch w {
		case wouldDelay:
			d.Delayed++
			d.Waits.add(waited)
		case wouldRefuse:
			d.Refused++
		case wouldRedirect:
			d.Redirected++
		case wouldServe:
		}
	}
	if w == wouldRefuse {
		t.cause(reason).CPU += cpu
	}
	for _, k := range s.who.Keys() {
		t.class(k.Class).of(k.ID).add(w, waited, cpu)
	}
}

// fate counts what would have become of a request. It returns what, and why.
func (t *tally) fate(s *seen, f *replay.Fate) (w would, reason string) {
	if f.Redirected {
		t.acted(s, wouldRedirect, 0, busy)
	}
	waited := f.Waited + f.Held
	switch {
	case f.Refused || f.TurnedAway:
		w, reason = wouldRefuse, cause(f)
		t.acted(s, w, waited, reason)
		return w, reason
	case waited >= noticed:
		w, reason = wouldDelay, cause(f)
		t.acted(s, w, waited, reason)
	}
	if !f.Left {
		t.Groups[s.group].Would.CPU += s.asks.Seconds()
	}
	return w, reason
}

// merge adds another one.
func (t *tally) merge(o *tally) {
	t.Requests += o.Requests
	t.Lost += o.Lost
	t.Late += o.Late
	for i := range min(len(t.Groups), len(o.Groups)) {
		g, x := &t.Groups[i], &o.Groups[i]
		g.Requests += x.Requests
		g.Was.merge(&x.Was)
		g.Would.merge(&x.Would)
	}
	for name, d := range o.Causes {
		t.cause(name).merge(d)
	}
	for class, all := range o.top() {
		k := t.class(class)
		for _, m := range all {
			k.merge(m)
		}
	}
}

// top are the first keys of each class: those of an hour that is over are known no other way.
func (t *tally) top() map[string][]met {
	if t.Top != nil {
		return t.Top
	}
	all := make(map[string][]met, len(t.Keys))
	for class, k := range t.Keys {
		all[class] = k.top(keysCounted)
	}
	return all
}

// end keeps what is kept of an hour that is over.
func (t *tally) end() {
	t.Top = make(map[string][]met, len(t.Keys))
	for class, k := range t.Keys {
		t.Top[class] = k.top(keysKept)
	}
	t.Keys = nil
}

// resume goes on with an hour that was saved.
func (t *tally) resume() {
	top := t.Top
	t.Top, t.Keys = nil, make(map[string]*keys)
	for class, all := range top {
		k := t.class(class)
		for _, m := range all {
			k.merge(m)
		}
	}
}
