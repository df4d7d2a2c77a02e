package standing

import "testing"

// TestSessionsByHand: when a session may move, and which cookie a new one of it replaces.
func TestSessionsByHand(t *testing.T) {
	const most = 1000 + (movesAtOnce-1)*moveEvery
	for moves, want := range map[int64]bool{most: true, most + 1: false} {
		if e := (session{home: 1, moves: moves}); e.mayMove(1000) != want {
			t.Errorf("with moves until %d: %t", moves, !want)
		}
	}
	if e := (session{moves: most + 1}); !e.mayMove(1000) {
		t.Error("a session without an address cannot get one")
	}
	var e session
	for i := range uint64(valuesOfSession - valuesOfName) {
		e.learn(100+i, 5)
	}
	for i := range uint64(valuesOfName) {
		e.learn(200+i, 3)
	}
	if old := e.learn(300, 3); old != 200 {
		t.Errorf("of a name that has enough, %d makes room, want the oldest, 200", old)
	}
	if old := e.learn(301, 7); old != 100 {
		t.Errorf("of a new name, %d makes room, want the oldest of all, 100", old)
	}
	e = session{}
	for i := range uint64(valuesOfSession) {
		e.learn(100+i, map[bool]uint8{true: 5, false: 0}[i < valuesOfSession/2])
	}
	if old := e.learn(200, 0); old != 100 {
		t.Errorf("of an unknown name, %d makes room, want the oldest of all, 100", old)
	}
	if h := hashOfName("a"); h != 0xe5 { // the upper bits of FNV-1a
		t.Errorf("a name's hash is %#x", h)
	}
}

// TestSessionsAreFound: a cookie that comes back is not the next one to be forgotten, and nothing
// is taken for a session that is one no longer.
func TestSessionsAreFound(t *testing.T) {
	var s sessions
	place := s.add(session{id: 7})
	for i := range uint64(valuesOfSession) {
		s.learn(place, 7, 100+i, 0)
	}
	if at, e, ok := s.find(100); !ok || at != place || e.id != 7 {
		t.Errorf("a cookie is of session %d at %d: %t", e.id, at, ok)
	}
	s.learn(place, 7, 200, 0)
	for value, want := range map[uint64]bool{100: true, 101: false, 102: true, 200: true} {
		if _, _, ok := s.find(value); ok != want {
			t.Errorf("cookie %d is known: %t", value, ok)
		}
	}
	for _, at := range []int32{place, place + 1, place + 2} {
		if s.with(at, 8, func(*session) { t.Error("it is told of") }) || s.learn(at, 8, 300, 0) {
			t.Errorf("there is a session 8 at %d", at)
		}
	}
}
