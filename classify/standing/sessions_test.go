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
}

// TestSessionsAreFound: a cookie that comes back is not the next one to be forgotten, and nothing
// is taken for a session that is one no longer.
func TestSessionsAreFound(t *testing.T) {
	s := newSessions()
	s.all.Add(7, &session{id: 7})
	for i := range uint64(valuesOfSession) {
		s.learn(7, 100+i, 0)
	}
	if e := s.findLocked(100); e == nil || e.id != 7 {
		t.Errorf("a cookie is of session %+v", e)
	}
	s.learn(7, 200, 0)
	for value, want := range map[uint64]bool{100: true, 101: false, 102: true, 200: true} {
		if s.has(value) != want {
			t.Errorf("cookie %d is known: %t", value, !want)
		}
	}
	if s.learn(8, 300, 0) || s.has(300) {
		t.Error("there is a session 8")
	}
}
