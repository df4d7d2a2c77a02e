package standing

import (
	"bytes"
	"math"
	"testing"
	"time"

	"tempomat/classify"
)

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
	again, err := y.AppendBinary(nil)
	if err != nil || !bytes.Equal(saved, again) {
		t.Errorf("%d bytes become %d: %v", len(saved), len(again), err)
	}
	if sessions, given := y.sessions.all.Len(), len(y.handed.save()); sessions != 2 || given != 1 {
		t.Errorf("%d sessions and %d cookies are kept", sessions, given)
	}
	vouched, all := 0, 0
	y.visitors.each(func(v *visitor) {
		all++
		if v.attested == 3 {
			vouched++
		}
	})
	if vouched != 1 || all != 1 {
		t.Errorf("%d of %d are vouched for", vouched, all)
	}
	for address, cookie := range map[string]string{"192.0.2.3": sid, "198.51.100.1": "b" + sid} {
		if res := (&standingSite{t: t, c: x.c, s: y}).ask(3*time.Hour+time.Minute, address, "/", []string{"Cookie: " + cookie}); res.Evidence&classify.Cookie == 0 {
			t.Errorf("%s is no session any more", address)
		}
	}
}

// TestFilesAreBounded: a file has so many sessions at most, and nothing that it says of sessions
// that are not in it counts.
func TestFilesAreBounded(t *testing.T) {
	file := func(sessions []savedSession, cookies []savedCookie, given []savedHanded, visitors []savedVisitor) []byte {
		b := append([]byte{standingVersion}, make([]byte, 16)...)
		return appendList(appendList(appendList(appendList(b, sessions), cookies), given), visitors)
	}
	take := func(b []byte) (*Judge, error) {
		j, err := New([16]byte{}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		return j, j.UnmarshalBinary(b)
	}
	for n, want := range map[int]bool{0: true, mostSessions: true, mostSessions + 1: false} {
		if _, err := take(file(make([]savedSession, n), nil, nil, nil)); (err == nil) != want {
			t.Errorf("%d sessions: %v", n, err)
		}
	}
	b := file([]savedSession{{ID: 1}, {ID: 3}}, []savedCookie{{0, 5}, {1, 7}, {2, 9}, {1, 0}, {math.MaxUint32, 11}}, make([]savedHanded, 1), nil)
	j, err := take(b)
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[uint64]bool{5: true, 7: true, 9: false, 0: false, 11: false} {
		if j.sessions.has(value) != want {
			t.Errorf("cookie %d is a session's: %t", value, !want)
		}
	}
	if n := len(j.handed.save()); n > 0 {
		t.Errorf("%d cookies that are none were given", n)
	}
	for n := range b {
		if _, err := take(b[:n]); err == nil {
			t.Errorf("%d bytes of %d are taken", n, len(b))
		}
	}
	for told, want := range map[float32]float32{
		classify.MostStanding: classify.MostStanding, 0.5: 0.5, 0: 0, -1: 0, math.Nextafter32(classify.MostStanding, 9): 0, float32(math.NaN()): 0,
	} {
		j, err := take(file(nil, nil, nil, []savedVisitor{{Hash: 7, First: 1, Attested: told}}))
		if err != nil {
			t.Fatal(err)
		}
		j.visitors.with(7, 0, func(v *visitor) {
			if v.attested != want || v.first != 1 {
				t.Errorf("%g is taken for %g", told, v.attested)
			}
		})
	}
}
