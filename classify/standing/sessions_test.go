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
	if h := hashOfName("a"); h != 0xe5 { // the upper bits of FNV-1a
		t.Errorf("a name's hash is %#x", h)
	}
}
