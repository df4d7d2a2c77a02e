package standing

import (
	"fmt"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestSessionsAreBoundedWhereverTheyWereProven moves 300 sessions to one address, which has at most 64
// sessions in use.
func TestSessionsAreBoundedWhereverTheyWereProven(t *testing.T) {
	x := newStandingSite(t)
	for i := range 300 {
		address := fmt.Sprintf("192.0.2.%d", i/50+1)
		x.ask(0, address, "/", nil, "Set-Cookie: "+cookie(i))
		if res := x.ask(0, address, "/", []string{"Cookie: " + cookie(i)}); !isSession(res) {
			t.Fatalf("session %d is lost at its own address", i)
		}
	}
	for _, at := range []time.Duration{0, time.Minute, time.Hour} {
		n := 0
		for round := range 3 { // as if one crawler used all of them
			n = 0
			for i := range 300 {
				if isSession(x.ask(at+time.Duration(round)*15*time.Second, "192.0.2.99", "/", []string{"Cookie: " + cookie(i)})) {
					n++
				}
			}
		}
		if n < maxSessions-5 || n > maxSessions+5 {
			t.Errorf("after %v: %d sessions at one address", at, n)
		}
	}
}

// TestHandedOutCookiesEvictNobody hands 150,000 cookies to one address, and as many to a session. Meanwhile, a person
// keeps a session, and two newcomers, one of them in the same network, keep their new cookies.
func TestHandedOutCookiesEvictNobody(t *testing.T) {
	x := newStandingSite(t)
	const theirs = "sid=ffffffffffffffff"
	x.ask(0, "198.51.100.1", "/", nil, "Set-Cookie: "+sid)
	x.ask(0, "198.51.100.1", "/", []string{"Cookie: " + sid})
	x.ask(0, "203.0.113.1", "/", nil, "Set-Cookie: "+theirs)
	x.ask(0, "192.0.2.2", "/", nil, "Set-Cookie: "+theirs)
	x.ask(0, "192.0.2.3", "/", nil, "Set-Cookie: x"+sid)
	x.ask(0, "192.0.2.3", "/", []string{"Cookie: x" + sid})
	const each = 30 // cookies in an answer
	for i := range 5000 {
		var strangers, sessions []string
		for j := range each {
			strangers = append(strangers, "Set-Cookie: "+cookie(i*each+j))
			sessions = append(sessions, fmt.Sprintf("Set-Cookie: y=%016d", i*each+j))
		}
		x.ask(time.Second, "192.0.2.1", "/", nil, strangers...)
		x.ask(time.Second, "192.0.2.3", "/", []string{"Cookie: x" + sid}, sessions...)
	}
	for what, c := range map[string]struct{ address, cookie string }{
		"a session":                          {"198.51.100.1", sid},
		"a newcomer":                         {"203.0.113.1", theirs},
		"a newcomer in the same network":     {"192.0.2.2", theirs},
		"the session that was given as many": {"192.0.2.3", "x" + sid},
	} {
		if res := x.ask(time.Minute, c.address, "/", []string{"Cookie: " + c.cookie}); !isSession(res) {
			t.Errorf("%s is %v", what, res.Keys())
		}
	}
	if n := len(x.s.sessions.values); n > 4*valuesOfSession {
		t.Errorf("four sessions have %d cookies", n)
	}
}

// TestOldestSessionMakesRoom: the oldest session is evicted with its cookies. A session in use stays.
func TestOldestSessionMakesRoom(t *testing.T) {
	s := newSessions()
	add := func(id uint32) {
		s.all.Add(id, &session{id: id})
		s.learn(id, uint64(id), 0)
	}
	for id := range uint32(mostSessions) {
		add(id + 1)
	}
	s.findLocked(1)
	add(mostSessions + 1)
	for value, want := range map[uint64]bool{1: true, 2: false, 3: true, mostSessions + 1: true} {
		testkit.Same(t, want, s.has(value), "session %d is known", value)
	}
	if len(s.values) != mostSessions || s.all.Len() != mostSessions {
		t.Errorf("%d sessions, %d values", s.all.Len(), len(s.values))
	}
}
