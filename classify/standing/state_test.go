package standing

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"time"

	"tempomat/classify"
)

// kept is what is remembered of sessions, cookies and visitors, where nothing depends on the
// order in which they came.
type kept struct {
	sessions []session
	handed   []handed
	visitors []visitor
}

func keptBy(j *Judge) (k kept) {
	j.sessions.each(func(e *session) {
		x := *e
		x.names, x.counted, x.newer, x.older = [valuesOfSession]uint8{}, 0, 0, 0 // are not kept
		k.sessions = append(k.sessions, x)
	})
	j.handed.each(func(e handed) {
		e.order = 0
		k.handed = append(k.handed, e)
	})
	j.visitors.each(func(v *visitor) {
		if v.hours > 0 || v.attested > 0 {
			k.visitors = append(k.visitors, visitor{
				hash: v.hash, first: v.first, last: v.last, hour: v.hour, hours: v.hours, attested: v.attested, attestedUntil: v.attestedUntil,
			})
		}
	})
	return k
}

// TestAllSurvivesARestart: sessions with their addresses, visitors and moves, each with its own cookies;
// cookies that did not come back yet; and who came for a while or is vouched for.
func TestAllSurvivesARestart(t *testing.T) {
	x := newStandingSite(t)
	x.ask(0, "192.0.2.1", "/", nil, "Set-Cookie: "+sid, "Set-Cookie: a"+sid)
	x.ask(0, "198.51.100.1", "/", nil, "Set-Cookie: b"+sid)
	for i := range 3 {
		x.ask(time.Duration(i)*time.Hour, "192.0.2.1", "/", []string{"Cookie: " + sid}, "Set-Cookie: c"+sid)
	}
	x.ask(3*time.Hour, "192.0.2.2", "/", []string{"Cookie: " + sid}) // it moves
	x.ask(3*time.Hour, "192.0.2.3", "/", []string{"Cookie: " + sid})
	x.ask(3*time.Hour, "198.51.100.1", "/", []string{"Cookie: b" + sid})
	x.ask(3*time.Hour, "203.0.113.1", "/", nil, "Set-Cookie: d"+sid) // it did not come back yet
	x.ask(3*time.Hour, "203.0.113.2", "/a.json", nil, Header+": 3")  // it had no page, but is vouched for
	x.ask(3*time.Hour, "203.0.113.3", "/a.json", nil)                // nothing is known of it
	saved, err := x.s.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	y, err := New([16]byte{9}, Config{})
	if err != nil || y.UnmarshalBinary(saved) != nil {
		t.Fatal("what was saved is refused")
	}
	was, is := keptBy(x.s), keptBy(y)
	if len(was.sessions) != 2 || len(was.handed) != 1 || len(was.visitors) < 5 || was.sessions[0].moves == 0 {
		t.Fatalf("that is not what was meant to be kept: %+v", was)
	}
	if y.secret != x.s.secret || !slices.Equal(was.sessions, is.sessions) || !slices.Equal(was.handed, is.handed) || !slices.Equal(was.visitors, is.visitors) {
		t.Errorf("%+v\nbecomes %+v", was, is)
	}
	vouched, all := 0, 0
	if y.visitors.each(func(*visitor) { all++ }); all != len(was.visitors) {
		t.Errorf("%d visitors are kept, and something is known of %d", all, len(was.visitors))
	}
	for _, v := range is.visitors {
		if v.attested == 3 {
			vouched++
		}
	}
	if vouched != 1 {
		t.Errorf("%d are vouched for", vouched)
	}
}

// file is a file of the lists, each with its elements' number in front.
func file(lists ...[]byte) []byte {
	b := append([]byte{standingVersion}, make([]byte, 16)...)
	for i, size := range []int{sessionSize, valueSize, handedSize, visitorSize} {
		var list []byte
		if i < len(lists) {
			list = lists[i]
		}
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(list)/size)), list...)
	}
	return b
}

// TestFilesAreBounded: a file has so many sessions at most, and nothing that it says of sessions
// that are not in it counts.
func TestFilesAreBounded(t *testing.T) {
	for n, want := range map[int]bool{0: true, mostSessions: true, mostSessions + 1: false} {
		j, err := New([16]byte{}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := j.UnmarshalBinary(file(make([]byte, n*sessionSize))); (err == nil) != want || want && len(j.sessions.all) != n {
			t.Errorf("of %d sessions %d are taken in: %v", n, len(j.sessions.all), err)
		}
	}
	le := binary.LittleEndian
	value := func(session uint32, value uint64) []byte {
		return le.AppendUint64(le.AppendUint32(nil, session), value)
	}
	j, err := New([16]byte{}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	values := slices.Concat(value(0, 5), value(1, 7), value(2, 9), value(1, 0), value(math.MaxUint32, 11))
	if err := j.UnmarshalBinary(file(make([]byte, 2*sessionSize), values, make([]byte, handedSize))); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[uint64]bool{5: true, 7: true, 9: false, 0: false, 11: false} {
		if _, _, ok := j.sessions.find(value); ok != want {
			t.Errorf("cookie %d is a session's: %t", value, ok)
		}
	}
	j.handed.each(func(e handed) { t.Errorf("a cookie that is none was given: %+v", e) })
}

// TestFilesVouchWithinBounds: what a file says that somebody is worth is what may be said, or
// nothing.
func TestFilesVouchWithinBounds(t *testing.T) {
	for told, want := range map[float32]float32{
		classify.MostStanding: classify.MostStanding, 0.5: 0.5, 0: 0, -1: 0, math.Nextafter32(classify.MostStanding, 9): 0, float32(math.NaN()): 0,
	} {
		x := make([]byte, visitorSize)
		binary.LittleEndian.PutUint64(x[24:], 7)
		binary.LittleEndian.PutUint16(x[36:], 1)
		binary.LittleEndian.PutUint32(x[38:], math.Float32bits(told))
		j, err := New([16]byte{}, Config{})
		if err != nil || j.UnmarshalBinary(file(nil, nil, nil, x)) != nil {
			t.Fatal("a file is refused")
		}
		j.visitors.with(7, 0, func(v *visitor) {
			if v.attested != want || v.hours != 1 {
				t.Errorf("%g is taken for %g", told, v.attested)
			}
		})
	}
}
