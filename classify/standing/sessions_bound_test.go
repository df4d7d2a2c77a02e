package standing

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestSessionsAreBoundedWhereverTheyWereProven moves 300 sessions to one address,
// which has at most 64 that are in use.
func TestSessionsAreBoundedWhereverTheyWereProven(t *testing.T) {
	x := newStandingSite(t)
	cookie := func(i int) string { return fmt.Sprintf("sid=%016d", i) }
	for i := range 300 {
		address := fmt.Sprintf("192.0.2.%d", i/50+1)
		x.ask(0, address, "/", nil, "Set-Cookie: "+cookie(i))
		if res := x.ask(0, address, "/", []string{"Cookie: " + cookie(i)}); !isSession(res) {
			t.Fatalf("session %d is none at its own address", i)
		}
	}
	for _, at := range []time.Duration{0, time.Minute, time.Hour} {
		n := 0
		for round := range 3 { // as one crawler uses all of them
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

// TestHandedOutCookiesEvictNobody hands 150,000 cookies to one address, and as many
// to a session, beside a person who has a session, one who has just been given a
// cookie, and one in the same network.
func TestHandedOutCookiesEvictNobody(t *testing.T) {
	x := newStandingSite(t)
	const theirs = "sid=ffffffffffffffff"
	x.ask(0, "198.51.100.1", "/", nil, "Set-Cookie: "+sid)
	x.ask(0, "198.51.100.1", "/", []string{"Cookie: " + sid})
	x.ask(0, "203.0.113.1", "/", nil, "Set-Cookie: "+theirs)
	x.ask(0, "192.0.2.2", "/", nil, "Set-Cookie: "+theirs)
	x.ask(0, "192.0.2.3", "/", nil, "Set-Cookie: x"+sid)
	x.ask(0, "192.0.2.3", "/", []string{"Cookie: x" + sid})
	const each = 30 // of 150,000, an answer
	for i := range 5000 {
		var strangers, sessions []string
		for j := range each {
			strangers = append(strangers, fmt.Sprintf("Set-Cookie: sid=%016d", i*each+j))
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
		t.Errorf("%d cookies are known for four sessions", n)
	}
}

// TestSessionsTable checks the table against one without a bound.
func TestSessionsTable(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var s sessions
		owner := map[uint64]uint32{}
		places := map[uint32]int32{}
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				id := uint32(len(places)*2 + 1)
				places[id] = s.add(session{id: id})
			},
			"learn": func(rt *rapid.T) {
				if len(places) == 0 {
					return
				}
				id := uint32(rapid.IntRange(0, len(places)-1).Draw(rt, "session")*2 + 1)
				value := rapid.Uint64Range(1, 100).Draw(rt, "value")
				name := uint8(rapid.IntRange(0, 3).Draw(rt, "name"))
				if !s.learn(places[id], id, value, name) {
					rt.Fatal("the session is gone")
				}
				if _, _, known := s.find(value); !known {
					rt.Fatalf("%d is not known", value)
				}
				if _, known := owner[value]; !known {
					owner[value] = id
				}
			},
			"": func(rt *rapid.T) {
				n := 0
				s.each(func(e *session) {
					n++
					for _, value := range e.values {
						if place, known := s.values[value]; value != 0 && (!known || s.all[place].id != e.id) {
							rt.Fatalf("%d of %d is not found", value, e.id)
						}
					}
				})
				if n != len(places) || len(s.values) > n*valuesOfSession {
					rt.Fatalf("%d sessions of %d, %d values", n, len(places), len(s.values))
				}
				for value := range owner {
					if _, e, ok := s.find(value); !ok || e.id != owner[value] {
						delete(owner, value) // forgotten: it may be another's next
					}
				}
			},
		})
	})
}

// TestOldestSessionMakesRoom fills the table.
func TestOldestSessionMakesRoom(t *testing.T) {
	var s sessions
	for i := range uint32(mostSessions) {
		place := s.add(session{id: i + 1})
		s.learn(place, i+1, uint64(i)+1, 0)
	}
	s.find(1) // the first one is in use
	s.learn(s.add(session{id: 7}), 7, 1<<40, 0)
	for value, want := range map[uint64]bool{1: true, 2: false, 3: true, 1 << 40: true} {
		if _, _, ok := s.find(value); ok != want {
			t.Errorf("session %d is there: %v", value, ok)
		}
	}
	for i := range uint64(3) { // the next ones do not make the latest ones leave
		s.learn(s.add(session{id: 9}), 9, 1<<41+i, 0)
	}
	n := 0
	if s.each(func(*session) { n++ }); n != mostSessions {
		t.Errorf("%d sessions are told of", n)
	}
	for value, want := range map[uint64]bool{1: true, 3: true, 4: false, 5: false, 6: false, 7: true, 1 << 40: true, 1 << 41: true, 1<<41 + 2: true} {
		if _, _, ok := s.find(value); ok != want {
			t.Errorf("after three more session %d is there: %v", value, ok)
		}
	}
	if len(s.values) != mostSessions || len(s.all) != mostSessions {
		t.Errorf("%d sessions, %d values", len(s.all), len(s.values))
	}
}
