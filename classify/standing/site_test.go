package standing

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tempomat/classify"
	"tempomat/limiter/known"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// site is a Standing, and what clients do at it.
type standingSite struct {
	t      *testing.T
	c      *classify.Classifier
	s      *Judge
	status int // of its answers; 0: 200
}

func newStandingSite(t *testing.T) *standingSite {
	t.Helper()
	c, err := classify.New(classify.Config{AddressHeader: classify.NoHeader, Classes: []classify.Class{{Name: "slash32", By: classify.Slash32}, {Name: "slash24", By: classify.Slash24}}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New([16]byte{1}, Config{
		Attested: 4, ClientClass: "slash32", SessionClass: "session", Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &standingSite{t: t, c: c, s: s}
}

// ask has a client ask for something, with headers such as "Cookie: a=b", and the
// site answer with some, and returns what was thought of the client before.
func (x *standingSite) ask(at time.Duration, address, path string, headers []string, answer ...string) *classify.Result {
	x.t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = address + ":1"
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	h := http.Header{"Content-Type": {"text/html"}}
	switch {
	case strings.Contains(path, ".css"):
		h.Set("Content-Type", "text/css")
	case strings.HasSuffix(path, ".json"):
		h.Set("Content-Type", "application/json")
	}
	for _, a := range answer {
		name, value, _ := strings.Cut(a, ": ")
		h.Add(name, value)
	}
	res, visit := new(classify.Result), Visit{}
	x.c.Classify(r, res)
	x.s.Assess(noon.Add(at), r, res, &visit)
	judged := *res
	status := max(x.status, http.StatusOK)
	if status == http.StatusNotModified {
		h.Del("Content-Type")
	}
	x.s.Answered(noon.Add(at), r, &visit, status, h)
	if _, there := h[Header]; there {
		x.t.Error("a client would see what the backend says of it")
	}
	return &judged
}

func expectStanding(t *testing.T, what string, res *classify.Result, standing float64, evidence classify.Evidence) {
	t.Helper()
	if res.Standing != standing || res.Evidence != evidence {
		t.Errorf("%s: standing %g by %q, want %g by %q", what, res.Standing, res.Evidence, standing, evidence)
	}
}

const sid = "sid=0123456789abcdef"

// TestStandingTravels has a visitor ask two instances in turn: what it shows at one counts at the other, its
// session is one client at both, also as the site changes its cookie, and it ceases to count when nobody tells it any
// more. What others tell is told by nobody again.
func TestStandingTravels(t *testing.T) {
	a, b, stranger := newStandingSite(t), newStandingSite(t), newStandingSite(t)
	sites := []*standingSite{a, b, stranger}
	exchanges := []*known.Exchange{known.NewExchange(), known.NewExchange(), known.NewExchange()}
	secrets := [][32]byte{{1}, {1}, {2}}
	for i, x := range exchanges {
		sites[i].s.Share(x, [16]byte(secrets[i][:16]))
		x.SetKeys(secrets[i], secrets[i])
	}
	carry := func(from int, at time.Duration) (told uint64) {
		before := exchanges[from].State().Told
		for _, p := range exchanges[from].Pack(noon.Add(at)) {
			for _, x := range exchanges {
				x.Learn(noon.Add(at), p)
			}
		}
		return exchanges[from].State().Told - before
	}
	const person = "198.51.100.1"
	a.ask(0, person, "/", nil, "Set-Cookie: "+sid)
	for range 3 {
		a.ask(0, person, "/a.css", nil)
	}
	carry(0, 0)
	if res := b.ask(0, person, "/", nil); res.Evidence != classify.Parts {
		t.Errorf("its parts are %v elsewhere", res.Evidence)
	}
	if v, ok := b.s.Visits(noon, person); !ok || v.Evidence != classify.Parts {
		t.Errorf("what is remembered is %+v", v)
	}
	if carry(1, 0) > 0 {
		t.Error("what was heard is told again")
	}
	if res := b.ask(time.Second, person, "/", []string{"Cookie: " + sid}); isSession(res) {
		t.Error("a cookie that did not come back yet is a session")
	}
	first := a.ask(time.Second, person, "/", []string{"Cookie: " + sid}, "Set-Cookie: sid=fedcba9876543210").Keys()[0]
	carry(0, time.Second)
	for _, cookie := range []string{sid, "sid=fedcba9876543210", sid} {
		if res := b.ask(time.Second, person, "/", []string{"Cookie: " + cookie}, "Set-Cookie: sid=0000000011111111"); res.Keys()[0] != first {
			t.Errorf("with %s it is %v elsewhere, not %v", cookie, res.Keys()[0], first)
		}
	}
	carry(1, 2*time.Second)
	if res := a.ask(2*time.Second, person, "/", []string{"Cookie: sid=0000000011111111"}); res.Keys()[0] != first {
		t.Errorf("with a cookie of the other instance it is %v", res.Keys()[0])
	}
	if n := b.s.sessions.all.Len(); n != 1 {
		t.Errorf("%d sessions", n)
	}
	if res := b.ask(2*time.Second, "203.0.113.1", "/", []string{"Cookie: " + sid}); isSession(res) {
		t.Error("in another network the cookie is a session")
	}
	b.ask(3*time.Second, "192.0.2.1", "/", nil, Header+": 8")
	carry(1, 3*time.Second)
	if res := a.ask(3*time.Second, "192.0.2.1", "/", nil); res.Standing != 8 {
		t.Errorf("it is vouched for elsewhere, and has %v", res.Standing)
	}
	if res := stranger.ask(3*time.Second, person, "/", []string{"Cookie: " + sid}); res.Evidence != 0 || isSession(res) {
		t.Errorf("without the secret it is %v", res.Evidence)
	}
	late := known.Counts + 3*time.Second
	if res := a.ask(late, "192.0.2.1", "/", nil); res.Standing != 1 {
		t.Errorf("it counts long after it was told: %v", res.Standing)
	}
}
