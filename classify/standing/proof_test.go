package standing

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"tempomat/classify"

	"pgregory.net/rapid"
)

func isSession(res *classify.Result) bool {
	return len(res.Keys()) > 0 && res.Keys()[0].Class == "session"
}

// TestSessionMovesWithItsAddress has a phone change its address within its network:
// the session goes along at once, and the old address has it no longer.
func TestSessionMovesWithItsAddress(t *testing.T) {
	for name, c := range map[string]struct {
		home, next, away string
	}{
		"IPv4": {"192.0.2.1", "192.0.2.200", "192.0.3.1"},
		"IPv6": {"[2001:db8:0:1::1]", "[2001:db8:0:ff00::1]", "[2001:db8:1:1::1]"},
	} {
		x := newStandingSite(t)
		x.ask(0, c.home, "/", nil, "Set-Cookie: "+sid)
		for _, at := range []time.Duration{time.Hour, 2 * time.Hour, 3 * time.Hour} {
			x.ask(at, c.home, "/", []string{"Cookie: " + sid})
		}
		moved := x.ask(3*time.Hour+time.Second, c.next, "/", []string{"Cookie: " + sid})
		if !isSession(moved) || moved.Evidence != classify.Cookie || moved.Keys()[1].ID != moved.Address {
			t.Errorf("%s: at its next address it is %v by %q", name, moved.Keys(), moved.Evidence)
		}
		if res := x.ask(3*time.Hour+2*time.Second, c.away, "/", []string{"Cookie: " + sid}); isSession(res) || res.Evidence != 0 {
			t.Errorf("%s: in another network it is %v by %q", name, res.Keys(), res.Evidence)
		}
		if res := x.ask(3*time.Hour+3*time.Second, c.home, "/", nil); res.Evidence&classify.Cookie != 0 {
			t.Errorf("%s: the address that it left has %q", name, res.Evidence)
		}
	}
	x := newStandingSite(t) // another address of the same /64 is the same address
	x.ask(0, "[2001:db8::1]", "/", nil, "Set-Cookie: "+sid)
	for i := range 20 {
		res := x.ask(time.Second, fmt.Sprintf("[2001:db8::%x]", i+1), "/", []string{"Cookie: " + sid})
		if !isSession(res) {
			t.Errorf("address %d of the /64: no session", i)
		}
	}
}

// TestPhoneNeverNotices has an address change every three minutes for a day.
func TestPhoneNeverNotices(t *testing.T) {
	x := newStandingSite(t)
	x.ask(0, "192.0.2.1", "/", nil, "Set-Cookie: "+sid)
	for i := range 480 {
		at := time.Duration(i)*3*time.Minute + time.Second
		if res := x.ask(at, fmt.Sprintf("192.0.2.%d", i%200), "/", []string{"Cookie: " + sid}); !isSession(res) {
			t.Fatalf("after %v it is no session", at)
		}
	}
}

// TestWhoHasMovedALotStays: a session that may not move again is still one where it is.
func TestWhoHasMovedALotStays(t *testing.T) {
	x := newStandingSite(t)
	x.ask(0, "192.0.2.1", "/", nil, "Set-Cookie: "+sid)
	home := ""
	for i := range 20 {
		address := fmt.Sprintf("192.0.2.%d", i+1)
		if isSession(x.ask(time.Second, address, "/", []string{"Cookie: " + sid})) {
			home = address
		}
	}
	for at := time.Second; at < time.Minute; at += 5 * time.Second {
		if !isSession(x.ask(at, home, "/", []string{"Cookie: " + sid})) {
			t.Errorf("after %v it is none where it is at home", at)
		}
	}
}

// TestChangingCookiesOfSeveral: a new value is that of the session that it was given to, of several.
func TestChangingCookiesOfSeveral(t *testing.T) {
	x := newStandingSite(t)
	cookie := func(client, i int) string { return fmt.Sprintf("sid=%08d%08d", client, i) }
	for client := range 3 {
		x.ask(0, "192.0.2.1", "/", nil, "Set-Cookie: "+cookie(client, 0))
	}
	var ids [3]string
	for i := range 4 {
		for client := range 3 {
			res := x.ask(time.Second, "192.0.2.1", "/", []string{"Cookie: " + cookie(client, i)}, "Set-Cookie: "+cookie(client, i+1))
			if id := res.Keys()[0].ID; !isSession(res) || i > 0 && id != ids[client] {
				t.Errorf("after %d answers client %d is %s, and was %s", i, client, id, ids[client])
			}
			ids[client] = res.Keys()[0].ID
		}
	}
	if n := x.s.sessions.all.Len(); n != 3 {
		t.Errorf("%d sessions are remembered of three", n)
	}
	if ids[0] == ids[1] || ids[1] == ids[2] || ids[0] == ids[2] {
		t.Errorf("three sessions are %q", ids)
	}
}

// TestCookiesThatDoNotComeBack: an address that takes cookies and brings fewer than half of them
// back is not taken for one of people, whatever they were given with.
func TestCookiesThatDoNotComeBack(t *testing.T) {
	for _, path := range []string{"/", "/data.json"} {
		for back, want := range map[int]classify.Evidence{4: 0, 5: classify.Cookie} {
			x := newStandingSite(t)
			for i := range 10 {
				x.ask(0, "192.0.2.1", path, nil, fmt.Sprintf("Set-Cookie: sid=%016d", i))
			}
			for i := range back {
				x.ask(0, "192.0.2.1", path, []string{fmt.Sprintf("Cookie: sid=%016d", i)})
			}
			if res := x.ask(0, "192.0.2.1", path, nil); res.Evidence != want || res.ClientsBehind != 1 {
				t.Errorf("%s: with %d of 10 back there is %q, for %g clients", path, back, res.Evidence, res.ClientsBehind)
			}
		}
	}
}

// TestFewCookiesOfAnAnswer: an answer gives so many at most that count.
func TestFewCookiesOfAnAnswer(t *testing.T) {
	x := newStandingSite(t)
	var given []string
	for i := range maxCookies + 1 {
		given = append(given, fmt.Sprintf("Set-Cookie: c%d=0123456789abcdef", i))
	}
	x.ask(0, "192.0.2.1", "/", nil, given...)
	for i, want := range map[int]bool{maxCookies: false, maxCookies - 1: true} { // in any order: one that does not count changes nothing
		if res := x.ask(time.Second, "192.0.2.1", "/", []string{fmt.Sprintf("Cookie: c%d=0123456789abcdef", i)}); isSession(res) != want {
			t.Errorf("cookie %d makes a session: %t", i+1, !want)
		}
	}
}

// TestSharedCookieIsOneSession has 254 addresses share a cookie, in whatever order:
// it is a session at one of them at a time, and changes a few times only.
func TestSharedCookieIsOneSession(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := newStandingSite(t)
		x.ask(0, "192.0.2.1", "/", nil, "Set-Cookie: "+sid)
		at, begun := time.Duration(0), false
		var start time.Duration
		holder, changes := "", 0
		for range rapid.IntRange(1, 300).Draw(rt, "requests") {
			at += time.Duration(rapid.IntRange(0, 5000).Draw(rt, "ms")) * time.Millisecond
			address := fmt.Sprintf("192.0.2.%d", rapid.IntRange(1, 254).Draw(rt, "address"))
			res := x.ask(at, address, "/", []string{"Cookie: " + sid})
			if !isSession(res) {
				if res.Evidence&classify.Cookie != 0 && address != holder {
					rt.Fatalf("%s has %q of somebody else's", address, res.Evidence)
				}
				continue
			}
			if !begun {
				begun, start = true, at
			}
			if address != holder {
				holder = address
				changes++
			}
			if most := 1 + movesAtOnce + int((at-start)/time.Second)/moveEvery + 1; changes > most {
				rt.Fatalf("after %v it has changed %d times", at-start, changes)
			}
		}
	})
}

// TestCookieThatManyHave checks that a cookie that the site gives to many keeps
// nobody's own one from counting.
func TestCookieThatManyHave(t *testing.T) {
	x := newStandingSite(t)
	const shared = "consent=0123456789abcdef0123456789abcdef"
	for i := range 20 {
		own := fmt.Sprintf("sid=%032d", i)
		address := fmt.Sprintf("192.0.2.%d", i+1)
		x.ask(0, address, "/", nil, "Set-Cookie: "+shared, "Set-Cookie: "+own)
		for range 2 {
			if res := x.ask(time.Second, address, "/", []string{"Cookie: " + shared + "; " + own}); !isSession(res) {
				t.Errorf("client %d is no session", i)
			}
		}
	}
}

// TestSessionsStayInUse checks that people who go on reading go on counting.
func TestSessionsStayInUse(t *testing.T) {
	x := newStandingSite(t)
	for i := range 10 {
		x.ask(0, "192.0.2.1", "/", nil, fmt.Sprintf("Set-Cookie: sid=%016d", i))
	}
	var res *classify.Result
	for minute := range 60 {
		for i := range 10 {
			res = x.ask(time.Duration(minute)*time.Minute, "192.0.2.1", "/", []string{fmt.Sprintf("Cookie: sid=%016d", i)})
			if !isSession(res) {
				t.Fatalf("minute %d: session %d is none", minute, i)
			}
		}
	}
	if res.ClientsBehind != maxCompany {
		t.Errorf("after an hour the address counts as %g clients", res.ClientsBehind)
	}
}

func pageRequest(address string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = address + ":1"
	return r
}
