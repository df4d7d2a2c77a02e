package limiter

import (
	"time"

	"tempomat/limiter/account"
)

// Row is what the doctor shows of one key.
type Row struct {
	Class string `json:"class"`
	ID    string `json:"id"`
	// Level is the key's balance in CPU-seconds: above zero credit, below debt.
	Level float64 `json:"level"`
	// Wait is the average time in seconds that the key's latest requests were
	// delayed, for its debt or at the gate, also in vain: of the first ten all count
	// alike, after that each one moves it by a tenth, as in the original. Those that
	// wait at the gate count with what they have waited so far.
	Wait float64 `json:"wait"`
	// CPU is the CPU time that the key lately used, in CPU-seconds per second.
	CPU float64 `json:"cpu"`
	// Rate is the requests per second that the key lately made.
	Rate float64 `json:"rate"`
	// Last is how long ago the key was last used, in seconds.
	Last float64 `json:"last"`
	// Paid is in how many seconds its debt will be paid, if it asks for nothing more.
	Paid float64 `json:"paid"`
	// Running counts its requests at the backend, Waiting those that wait at the gate or
	// for a debt.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// Holds counts those at the backend that are not short, and Orphans those whose
	// client has left.
	Holds   int `json:"holds"`
	Orphans int `json:"orphans"`
	// Client is how the key stands at the gate, if it is a client's.
	Client *ClientRow `json:"client,omitempty"`
}

// ClientRow is what the doctor shows of a client at the gate.
type ClientRow struct {
	// Known says that it is no stranger: it has been seen for a while.
	Known bool `json:"known"`
	// Standing multiplies its share.
	Standing float64 `json:"standing"`
	// Lead is how far its service is ahead of the gate's clock, in CPU-seconds of
	// its own share: what it used beyond that while others wanted the machine.
	Lead float64 `json:"lead"`
	// Rank is that of its next request in the queue, in virtual CPU-seconds beyond
	// the gate's clock; the least goes first. Zero if none waits, or a stranger's.
	Rank float64 `json:"rank"`
	// Light, Heavy and Waits are how many of its requests wait: those up to 100 ms,
	// those above or unknown, and those that hold a worker and hardly compute. Of an
	// address without sessions they are those of the first of its User-Agents.
	Light int `json:"light"`
	Heavy int `json:"heavy"`
	Waits int `json:"waits"`
}

// ClassInfo is a class and what each of its keys may use.
type ClassInfo struct {
	Name   string
	Budget Budget
}

// Classes returns the classes of the policy in force, in configured order.
func (l *Limiter) Classes() []ClassInfo {
	return l.policy.Load().Classes
}

// Dump calls yield with a Row for every key of a class (of all configured
// classes if class is empty), in no order, until yield returns false. Keys that
// come or go meanwhile may be missed. No lock is held while yield runs.
func (l *Limiter) Dump(now time.Time, class string, yield func(Row) bool) {
	l.table.All(l.since(now), class, func(s account.State, b *bucket) bool {
		return class == "" && l.table.Terms(s.Key.Class) == nil || yield(l.row(s, b))
	})
}

// Find returns the Row of one key, and whether it is known. A key that is not
// known has its whole burst, and an empty Row.
func (l *Limiter) Find(now time.Time, k Key) (r Row, found bool) {
	s, b := l.table.Find(l.since(now), k)
	if b == nil {
		return r, false
	}
	return l.row(s, b), true
}

// row is that of a key whose account stands so.
func (l *Limiter) row(s account.State, b *bucket) Row {
	r := Row{
		Class: s.Key.Class, ID: s.Key.ID, Level: s.Level,
		Wait: s.Wait, CPU: s.CPU, Rate: s.Requests, Last: s.Idle.Seconds(), Paid: s.Paid.Seconds(),
		Running: s.Running, Waiting: s.Waiting,
	}
	l.gate.fill(&r, b)
	return r
}
