package front

import (
	"maps"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

type member struct {
	RosterEntry[member]
	in bool
}

// TestAsASet compares a Roster with a map.
func TestAsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Roster[member]
		all := make([]member, 40)
		want := make(map[*member]bool)
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			m := &all[rapid.IntRange(0, len(all)-1).Draw(t, "who")]
			if want[m] {
				m.Remove()
				delete(want, m)
			} else {
				r.Add(&m.RosterEntry, m)
				want[m] = true
			}
			got := make(map[*member]bool)
			r.Each(func(m *member) { got[m] = true })
			if !maps.Equal(got, want) {
				t.Fatalf("%d are in, want %d", len(got), len(want))
			}
		}
	})
}

// TestNobodyLooksAtWhoHasLeft adds and removes members while Each runs.
func TestNobodyLooksAtWhoHasLeft(t *testing.T) {
	var r Roster[member]
	done := make(chan struct{})
	var looks, acts sync.WaitGroup
	looks.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				r.Each(func(m *member) {
					if !m.in {
						t.Error("somebody is looked at who has left")
					}
				})
			}
		}
	})
	for range 4 {
		acts.Go(func() {
			for range 2000 {
				m := &member{in: true}
				r.Add(&m.RosterEntry, m)
				m.Exclusively(func() { m.in = false; m.in = true })
				m.Remove()
				m.in = false
			}
		})
	}
	acts.Wait()
	close(done)
	looks.Wait()
}

// TestEachLetsGo: after a panic in Each, members can still be removed.
func TestEachLetsGo(t *testing.T) {
	var r Roster[member]
	m := &member{}
	r.Add(&m.RosterEntry, m)
	func() {
		defer func() { _ = recover() }()
		r.Each(func(*member) { panic("it looks wrong") })
	}()
	removed := make(chan struct{})
	go func() {
		m.Remove()
		close(removed)
	}()
	select {
	case <-removed:
	case <-time.After(10 * time.Second):
		t.Fatal("the member cannot leave")
	}
}
