package limiter

import (
	"time"
)

// Arrival is what the limiter needs to know of a request.
type Arrival struct {
	// Client is whom the request is of: an address, a session of one, a robot. The zero Key:
	// nothing is charged.
	Client Key
	// Within is what the client is a part of: of a Session its address, of one that is Pooled all
	// of these together; the zero Key: nothing that has an account.
	Within Key
	// Others are the client's networks, its User-Agent, and so on: at most MaxKeys with the two
	// above. They are not kept.
	Others []Key
	Guess  time.Duration // what it will likely cost
	// Idle is how long it will likely hold a worker of the backend without
	// computing.
	Idle time.Duration
	// Sure says that the guess rests on answers to requests of its kind. Only
	// then can it be light.
	Sure bool
	// Running is what others of its kind, that run or ran lately, have cost or held a
	// worker for at least, where the guess is not sure; zero: nothing is known.
	Running time.Duration
	// Standing multiplies the share of the client, by the evidence that it is a
	// person's browser: 1/2 to 8, and 0 is 1.
	Standing float64
	// ClientsBehind multiplies the share of a session's address: of how many clients that is. Up to 8,
	// and 0 is 1.
	ClientsBehind float64
	// Proven says that there is evidence for it at all: the client came back as no
	// stranger of a single request could, or is a robot with an account of its own.
	Proven bool
	// Passed says that the client, a stranger, kept a cookie that it was given as it
	// waited: it goes before strangers who did not.
	Passed bool
	// Session says that the client is a session of an address.
	Session bool
	// Pooled says that the client is one of many that anybody can make up, as the name of a
	// robot. All of these together are served as one client of its
	// share, each of them in turn, and as many of their requests wait as of one.
	Pooled bool
	// Site is the name of the policy's site that the request is for; empty, or none of the
	// policy's: it is one of the others.
	Site string
	// Face tells apart whom the client is, if that is no session, by what they say they are:
	// below 8.
	Face uint8
	// Follows says that the request is for a part of a page that its client was just
	// served: it is the last that a full queue refuses.
	Follows bool
	// Prefetch says that nobody looks at the answer yet. A stranger's goes last.
	Prefetch bool
	// Memory is that of a ticket that nobody uses any more, by its Emptied; nil: none is there.
	Memory *Ticket
}

// named is how many of the keys are somebody: the client, and what it is a part of. The others
// are only networks and such.
func (a *Arrival) named() int {
	switch {
	case a.Client.Class == "":
		return 0
	case a.Within.Class == "":
		return 1
	}
	return 2
}

// keys is how many the request is charged to, of whom so many are named.
func (a *Arrival) keys(named int) int {
	if named == 0 {
		return 0
	}
	return min(named+len(a.Others), MaxKeys)
}

// key is one of them, of whom so many are named: first the client, then what it is a part of.
func (a *Arrival) key(i, named int) *Key {
	switch {
	case i >= named:
		return &a.Others[i-named]
	case i == 0:
		return &a.Client
	}
	return &a.Within
}

// ticket is that of the request, empty but for what it says of itself.
func (a *Arrival) ticket(at time.Duration, p *activePolicy) *Ticket {
	t := a.Memory
	if t == nil {
		t = new(Ticket)
	}
	t.request = request{
		sure: a.Sure, proven: a.Proven, passed: a.Passed, session: a.Session, pooled: a.Pooled, follows: a.Follows,
		prefetch: a.Prefetch, face: a.Face % faces, siteName: a.Site, came: at,
		standing: p.standing(a.Standing), clientsBehind: p.standing(a.ClientsBehind),
		likelyIdle: a.Idle.Seconds(), running: a.Running.Seconds(),
	}
	t.guess = a.Guess.Seconds()
	return t
}
