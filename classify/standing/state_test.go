package standing

import (
	"bytes"
	"encoding/gob"
	"math"
	"testing"
	"time"

	"tempomat/classify"
	"tempomat/internal/testkit"
)

// TestAllSurvivesARestart: a restart keeps sessions with their addresses, visitors, moves and cookies. It also keeps
// cookies that haven't come back yet, and clients that visited for a while or are vouched for.
func TestAllSurvivesARestart(t *testing.T) {
	x := newStandingSite(t)
	x.ask(0, "192.0.2.1", "/", nil, "Set-Cookie: "+sid, "Set-Cookie: a"+sid)
	x.ask(0, "198.51.100.1", "/", nil, "Set-Cookie: b"+sid)
	for i := range 3 {
		x.ask(time.Duration(i)*time.Hour, "192.0.2.1", "/", []string{"Cookie: " + sid}, "Set-Cookie: c"+sid)
	}
	x.ask(3*time.Hour, "192.0.2.2", "/", []string{"Cookie: " + sid}) // the session moves
	x.ask(3*time.Hour, "192.0.2.3", "/", []string{"Cookie: " + sid})
	x.ask(3*time.Hour, "198.51.100.1", "/", []string{"Cookie: b" + sid})
	x.ask(3*time.Hour, "203.0.113.1", "/", nil, "Set-Cookie: d"+sid) // the cookie has not come back yet
	x.ask(3*time.Hour, "203.0.113.2", "/a.json", nil, Header+": 3")  // requests no page, but is vouched for
	x.ask(3*time.Hour, "203.0.113.3", "/a.json", nil)                // nothing is known about it
	saved, err := x.s.AppendBinary(nil)
	testkit.Must(t, err)
	y := New([16]byte{9}, Config{})
	if y.UnmarshalBinary(saved) != nil {
		t.Fatal("the saved state is refused")
	}
	again, err := y.AppendBinary(nil)
	if err != nil || !bytes.Equal(saved, again) {
		t.Errorf("%d bytes become %d when saved again: %v", len(saved), len(again), err)
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
		t.Errorf("%d of %d visitors are vouched for", vouched, all)
	}
	for address, cookie := range map[string]string{"192.0.2.3": sid, "198.51.100.1": "b" + sid} {
		if res := (&standingSite{t: t, c: x.c, s: y}).ask(3*time.Hour+time.Minute, address, "/", []string{"Cookie: " + cookie}); res.Evidence&classify.Cookie == 0 {
			t.Errorf("%s no longer has a session", address)
		}
	}
}

// TestFilesAreBounded: a file has a limited number of sessions, and invalid values in it don't count.
func TestFilesAreBounded(t *testing.T) {
	file := func(s state) []byte {
		var b bytes.Buffer
		testkit.Must(t, gob.NewEncoder(&b).Encode(&s))
		return b.Bytes()
	}
	take := func(b []byte) (*Judge, error) {
		j := New([16]byte{}, Config{})
		return j, j.UnmarshalBinary(b)
	}
	for n, want := range map[int]bool{0: true, mostSessions: true, mostSessions + 1: false} {
		if _, err := take(file(state{Sessions: make([]savedSession, n)})); (err == nil) != want {
			t.Errorf("%d sessions: %v", n, err)
		}
	}
	if _, err := take(file(state{Handed: make([]savedHanded, mostHanded+1)})); err == nil {
		t.Error("a file with too many cookies is accepted")
	}
	values := func(all ...uint64) (of [valuesOfSession]uint64) { copy(of[:], all); return of }
	b := file(state{Sessions: []savedSession{{ID: 1, Values: values(5)}, {ID: 3, Values: values(7, 5)}}, Handed: make([]savedHanded, 1)})
	j, err := take(b)
	testkit.Must(t, err)
	for value, want := range map[uint64]uint32{5: 1, 7: 3, 9: 0, 0: 0} {
		if e := j.sessions.values[value]; (e != nil) != (want != 0) || e != nil && e.id != want {
			t.Errorf("cookie %d belongs to %+v", value, e)
		}
	}
	if n := len(j.handed.save()); n > 0 {
		t.Errorf("%d invalid cookies count", n)
	}
	for n := range b {
		if _, err := take(b[:n]); err == nil {
			t.Errorf("a file cut to %d of %d bytes is accepted", n, len(b))
		}
	}
	for told, want := range map[float32]float32{
		classify.MostStanding: classify.MostStanding, 0.5: 0.5, 0: 0, -1: 0, math.Nextafter32(classify.MostStanding, 9): 0, float32(math.NaN()): 0,
	} {
		j, err := take(file(state{Visitors: []savedVisitor{{Hash: 7, First: 1, Attested: told}}}))
		testkit.Must(t, err)
		j.visitors.with(7, 0, func(v *visitor) {
			if v.attested != want || v.first != 1 {
				t.Errorf("%g is read as %g", told, v.attested)
			}
		})
	}
}
