package limiter

import (
	"slices"
	"sort"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter/account"
)

const second = time.Second

// world simulates time. It has a queue of future events and a limiter that gets the time from it, and does for
// the limiter what a driver would do.
type world struct {
	*Limiter
	start, now time.Time
	events     []event // in order of time
	seq        int
	due        time.Time // when the limiter asked for the next Advance
	asked      []asked
}

type event struct {
	at time.Time
	do func()
}

func newWorld(p Policy) *world {
	start := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	return &world{Limiter: New(start, p, 1<<10, nil), start: start, now: start}
}

func (w *world) after(d time.Duration, do func()) {
	at := w.now.Add(d)
	i := sort.Search(len(w.events), func(i int) bool { return w.events[i].at.After(at) })
	w.events = slices.Insert(w.events, i, event{at, do})
}

// run lets d pass.
func (w *world) run(d time.Duration) {
	end := w.now.Add(d)
	for {
		w.advance()
		next := end
		if len(w.events) > 0 && w.events[0].at.Before(next) {
			next = w.events[0].at
		}
		if !w.due.IsZero() && w.due.Before(next) {
			next = w.due
		}
		w.now = next
		if len(w.events) > 0 && !w.events[0].at.After(next) {
			first := w.events[0]
			w.events = w.events[1:]
			first.do()
		} else if next.Equal(end) {
			w.advance()
			return
		}
	}
}

func (w *world) advance() {
	w.due = w.Advance(w.now)
	w.tell()
}

// Progress and Reguess are followed by Advance, as in the driver, because they start no request themselves.
func (w *world) Progress(now time.Time, t *Ticket, soFar time.Duration, computes bool) {
	w.Limiter.Progress(now, t, soFar, computes)
	w.advance()
}

func (w *world) Reguess(now time.Time, t *Ticket, e Estimate) {
	w.Limiter.Reguess(now, t, e)
	w.advance()
}

// elapsed returns the time since the world began.
func (w *world) elapsed() time.Duration { return w.now.Sub(w.start) }

// ask sends a request, and calls then when it is decided: at once, or after the event that decided it.
func (w *world) ask(a Arrival, then func(*Ticket)) *Ticket {
	t := w.Arrive(w.now, a)
	w.asked = append(w.asked, asked{t, then})
	w.tell()
	return t
}

// asked is a request with a callback that waits for its decision.
type asked struct {
	t    *Ticket
	then func(*Ticket)
}

// tell calls the callbacks of requests that have been decided.
func (w *world) tell() {
	for i := 0; i < len(w.asked); i++ {
		if testkit.Ready(w.asked[i].t.Decided()) {
			a := w.asked[i]
			w.asked = slices.Delete(w.asked, i, i+1)
			a.then(a.t)
			i = -1 // the callback may have caused other decisions
		}
	}
}

// loop makes the given number of connections send requests from next repeatedly, and counts the CPU-seconds
// that they use. Each request takes and costs its guess. More requests don't make the backend slower.
func (w *world) loop(name string, connections int, used map[string]float64, next func() Arrival) {
	var ask func()
	ask = func() {
		a := next()
		w.ask(a, func(x *Ticket) {
			if x.Verdict().Refused() {
				w.Leave(w.now, x)
				w.after(a.Guess, ask)
				return
			}
			w.after(a.Guess, func() {
				used[name] += a.Guess.Seconds()
				w.done(x, a.Guess)
				ask()
			})
		})
	}
	for range connections {
		ask()
	}
}

// accounts calls f with every account of the limiter.
func accounts(l *Limiter, f func(account.State, *bucket)) {
	l.table.All(0, "", func(s account.State, b *bucket) bool {
		f(s, b)
		return true
	})
}

// one returns a policy with one class of clients.
func one(m Mode, b Budget) Policy {
	return Policy{
		Mode:    m,
		Classes: []ClassInfo{{Name: "slash32", Budget: b}},
		MaxHold: 30 * time.Second, MaxHeld: 512,
	}
}

// host returns the key of an address.
func host(id string) Key { return Key{Class: "slash32", ID: id} }

// networks returns the keys of the networks around an address, the nearest first.
func networks(ids ...string) (keys []Key) {
	for i, id := range ids {
		keys = append(keys, Key{Class: []string{"slash24", "slash16"}[i], ID: id})
	}
	return keys
}
