package limiter

import (
	"container/heap"
	"slices"
	"time"

	"tempomat/limiter/account"
)

const second = time.Second

// world is virtual time: a queue of things to happen, a limiter that is told
// when, and what a driver would do for it.
type world struct {
	*Limiter
	start, now time.Time
	events     events
	seq        int
	due        time.Time // when the limiter asked to be called
	asked      []asked
}

type event struct {
	at  time.Time
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

func newWorld(p Policy) *world {
	start := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	return &world{Limiter: New(start, p, 1<<10, nil), start: start, now: start}
}

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.events, event{w.now.Add(d), w.seq, do})
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
			heap.Pop(&w.events).(event).do()
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

// elapsed is the time since the world began.
func (w *world) elapsed() time.Duration { return w.now.Sub(w.start) }

// ask sends a request and calls then when it is decided: at once, or after the
// event that decided it.
func (w *world) ask(a Arrival, then func(*Ticket)) *Ticket {
	t := w.Arrive(w.now, a)
	w.asked = append(w.asked, asked{t, then})
	w.tell()
	return t
}

// asked is a request whose decision somebody waits for.
type asked struct {
	t    *Ticket
	then func(*Ticket)
}

// tell calls whoever waits for a decision that was made.
func (w *world) tell() {
	for i := 0; i < len(w.asked); i++ {
		select {
		case <-w.asked[i].t.Decided():
			a := w.asked[i]
			w.asked = slices.Delete(w.asked, i, i+1)
			a.then(a.t)
			i = -1 // it may have decided others
		default:
		}
	}
}

// accounts calls f with every account of the limiter's.
func accounts(l *Limiter, f func(account.State, *bucket)) {
	l.table.All(0, "", func(s account.State, b *bucket) bool {
		f(s, b)
		return true
	})
}

// one is a policy of one class of clients.
func one(m Mode, b Budget) Policy {
	return Policy{
		Mode:    m,
		Classes: []ClassInfo{{Name: "slash32", Budget: b}},
		MaxHold: 30 * time.Second, MaxHeld: 512,
	}
}

// host is the key of an address.
func host(id string) Key { return Key{Class: "slash32", ID: id} }

// networks are the keys of those around it, the nearest first.
func networks(ids ...string) (keys []Key) {
	for i, id := range ids {
		keys = append(keys, Key{Class: []string{"slash24", "slash16"}[i], ID: id})
	}
	return keys
}

func by(ids ...string) []Key {
	classes := []string{"slash32", "slash24", "slash16"}
	var keys []Key
	for i, id := range ids {
		keys = append(keys, Key{Class: classes[i], ID: id})
	}
	return keys
}
