package standing

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"tempomat/classify"
	"tempomat/internal/testkit"

	"pgregory.net/rapid"
)

func isSession(res *classify.Result) bool {
	return len(res.Keys()) > 0 && res.Keys()[0].Class == "session"
}

// TestSessionMovesWithItsAddress has a phone change its address within its network: the session moves along at
// once, and the old address no longer has it.
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
			t.Errorf("%s: at its next address, it is %v by %q", name, moved.Keys(), moved.Evidence)
		}
		if res := x.ask(3*time.Hour+2*time.Second, c.away, "/", []string{"Cookie: " + sid}); isSession(res) || res.Evidence != 0 {
			t.Errorf("%s: in another network, it is %v by %q", name, res.Keys(), res.Evidence)
		}
		testkit.Same(t, 0, x.ask(3*time.Hour+3*time.Second, c.home, "/", nil).Evidence&classify.Cookie, "%s: the evidence at the address that it left", name)
	}
	x := newStandingSite(t) // another address of the same /64 counts as the same address
	x.ask(0, "[2001:db8::1]", "/", nil, "Set-Cookie: "+sid)
	for i := range 20 {
		res := x.ask(time.Second, fmt.Sprintf("[2001:db8::%x]", i+1), "/", []string{"Cookie: " + sid})
		if !isSession(res) {
			t.Errorf("address %d of the /64: no session", i)
		}
	}
}

// TestPhoneNeverNotices changes a phone's address every three minutes for a day.
func TestPhoneNeverNotices(t *testing.T) {
	x := newStandingSite(t)
	x.ask(0, "192.0.2.1", "/", nil, "Set-Cookie: "+sid)
	for i := range 480 {
		at := time.Duration(i)*3*time.Minute + time.Second
		if res := x.ask(at, fmt.Sprintf("192.0.2.%d", i%200), "/", []string{"Cookie: " + sid}); !isSession(res) {
			t.Fatalf("after %v, the session is lost", at)
		}
	}
}

// TestOftenMovedSessionStays: a session that may not move again stays valid where it is.
func TestOftenMovedSessionStays(t *testing.T) {
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
			t.Errorf("after %v, the session is lost at its own address", at)
		}
	}
}

// TestChangingCookiesOfSeveral: if an address has several sessions, a cookie's new value belongs to the session that
// got it, and so does the site's other cookie.
func TestChangingCookiesOfSeveral(t *testing.T) {
	x := newStandingSite(t)
	cookie := func(client, i int) string { return fmt.Sprintf("sid=%08d%08d", client, i) }
	for client := range 3 {
		x.ask(0, "192.0.2.1", "/", nil, "Set-Cookie: "+cookie(client, 0), "Set-Cookie: other_"+cookie(client, 100))
	}
	var ids [3]string
	for i := range 4 {
		for client := range 3 {
			res := x.ask(time.Second, "192.0.2.1", "/", []string{"Cookie: " + cookie(client, i)}, "Set-Cookie: "+cookie(client, i+1))
			if id := res.Keys()[0].ID; !isSession(res) || i > 0 && id != ids[client] {
				t.Errorf("after %d answers, client %d is %s; it was %s", i, client, id, ids[client])
			}
			ids[client] = res.Keys()[0].ID
		}
	}
	testkit.Same(t, ids[1], x.ask(time.Minute, "192.0.2.1", "/", []string{"Cookie: other_" + cookie(1, 100)}).Keys()[0].ID, "the session of the site's other cookie")
	testkit.Same(t, 3, x.s.sessions.all.Len(), "sessions of three clients")
	if ids[0] == ids[1] || ids[1] == ids[2] || ids[0] == ids[2] {
		t.Errorf("three sessions are %q", ids)
	}
}

// TestCookiesThatDoNotComeBack: an address that gets cookies and sends back fewer than half of them has no evidence,
// whatever was served with the cookies.
func TestCookiesThatDoNotComeBack(t *testing.T) {
	for _, path := range []string{"/", "/data.json"} {
		for back, want := range map[int]classify.Evidence{4: 0, 5: classify.Cookie} {
			x := newStandingSite(t)
			for i := range 10 {
				x.ask(0, "192.0.2.1", path, nil, "Set-Cookie: "+cookie(i))
			}
			for i := range back {
				x.ask(0, "192.0.2.1", path, []string{"Cookie: " + cookie(i)})
			}
			if res := x.ask(0, "192.0.2.1", path, nil); res.Evidence != want || res.ClientsBehind != 1 {
				t.Errorf("%s: with %d of 10 cookies back, the evidence is %q, for %g clients", path, back, res.Evidence, res.ClientsBehind)
			}
		}
	}
}

// TestFewCookiesOfAnAnswer: only the first maxCookies cookies of an answer count.
func TestFewCookiesOfAnAnswer(t *testing.T) {
	x := newStandingSite(t)
	var given []string
	for i := range maxCookies + 1 {
		given = append(given, fmt.Sprintf("Set-Cookie: c%d=0123456789abcdef", i))
	}
	x.ask(0, "192.0.2.1", "/", nil, given...)
	for i, want := range map[int]bool{maxCookies: false, maxCookies - 1: true} { // in any order: a cookie that doesn't count changes nothing
		testkit.Same(t, want, isSession(x.ask(time.Second, "192.0.2.1", "/", []string{fmt.Sprintf("Cookie: c%d=0123456789abcdef", i)})), "cookie %d makes a session", i+1)
	}
}

// TestSharedCookieIsOneSession has 254 addresses share a cookie, in any order. The session is at only one of them at
// a time, and moves only a few times.
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
					rt.Fatalf("%s has another client's %q", address, res.Evidence)
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
				rt.Fatalf("after %v, the session has moved %d times", at-start, changes)
			}
		}
	})
}

// TestCookieThatManyHave checks that each client's own cookie counts, even if the site also gives one cookie to many
// clients.
func TestCookieThatManyHave(t *testing.T) {
	x := newStandingSite(t)
	const shared = "consent=0123456789abcdef0123456789abcdef"
	for i := range 20 {
		own := fmt.Sprintf("sid=%032d", i)
		address := fmt.Sprintf("192.0.2.%d", i+1)
		x.ask(0, address, "/", nil, "Set-Cookie: "+shared, "Set-Cookie: "+own)
		for range 2 {
			if res := x.ask(time.Second, address, "/", []string{"Cookie: " + shared + "; " + own}); !isSession(res) {
				t.Errorf("client %d has no session", i)
			}
		}
	}
}

// TestSessionsStayInUse checks that people who continue to read continue to count.
func TestSessionsStayInUse(t *testing.T) {
	x := newStandingSite(t)
	for i := range 10 {
		x.ask(0, "192.0.2.1", "/", nil, "Set-Cookie: "+cookie(i))
	}
	var res *classify.Result
	for minute := range 60 {
		for i := range 10 {
			res = x.ask(time.Duration(minute)*time.Minute, "192.0.2.1", "/", []string{"Cookie: " + cookie(i)})
			if !isSession(res) {
				t.Fatalf("minute %d: session %d is lost", minute, i)
			}
		}
	}
	testkit.Same(t, maxCompany, res.ClientsBehind, "after an hour, the number of clients behind the address")
}

func pageRequest(address string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = address + ":1"
	return r
}
