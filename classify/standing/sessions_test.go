package standing

import (
	"testing"

	"tempomat/internal/testkit"
)

// TestSessionsByHand checks when a session may move, and which of its cookies a new one replaces.
func TestSessionsByHand(t *testing.T) {
	const most = 1000 + (movesAtOnce-1)*moveEvery
	for moves, want := range map[int64]bool{most: true, most + 1: false} {
		x := session{home: 1, moves: moves}
		testkit.Same(t, want, x.mayMove(1000), "with moves until %d, it may move", moves)
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
	testkit.Same(t, 200, e.learn(300, 3), "for a name at its limit, the oldest makes room")
	testkit.Same(t, 100, e.learn(301, 7), "for a new name, the oldest of all makes room")
	e = session{}
	for i := range uint64(valuesOfSession) {
		e.learn(100+i, map[bool]uint8{true: 5, false: 0}[i < valuesOfSession/2])
	}
	testkit.Same(t, 100, e.learn(200, 0), "for an unknown name, the oldest of all makes room")
}

// TestSessionsAreFound: a cookie that comes back isn't the next to be replaced, and no session is found after it
// has ended.
func TestSessionsAreFound(t *testing.T) {
	s := newSessions()
	s.all.Add(7, &session{id: 7})
	for i := range uint64(valuesOfSession) {
		s.learn(7, 100+i, 0)
	}
	if e := s.findLocked(100); e == nil || e.id != 7 {
		t.Errorf("a cookie belongs to session %+v", e)
	}
	s.learn(7, 200, 0)
	for value, want := range map[uint64]bool{100: true, 101: false, 102: true, 200: true} {
		testkit.Same(t, want, s.has(value), "cookie %d is known", value)
	}
	if s.learn(8, 300, 0) || s.has(300) {
		t.Error("there is a session 8")
	}
}
