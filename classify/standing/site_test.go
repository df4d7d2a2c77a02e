package standing

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tempomat/classify"
	"tempomat/internal/testkit"
	"tempomat/limiter/known"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// standingSite is a site with a Judge, and plays its clients' requests.
type standingSite struct {
	t      *testing.T
	c      *classify.Classifier
	s      *Judge
	status int // of the site's answers; 0: 200
}

func newStandingSite(t *testing.T) *standingSite {
	t.Helper()
	c := classify.New(classify.Config{AddressHeader: classify.NoHeader, Classes: []classify.Class{{Name: "slash32", By: classify.Slash32}, {Name: "slash24", By: classify.Slash24}}})
	s := New([16]byte{1}, Config{
		Attested: 4, ClientClass: "slash32", SessionClass: "session", Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	return &standingSite{t: t, c: c, s: s}
}

// ask has a client make a request with headers such as "Cookie: a=b", and the site answer with the given
// headers. It returns how the client was judged before the answer.
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
		x.t.Error("the client would see the backend's header")
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

// cookie returns the ith session, in the form of sid.
func cookie(i int) string { return fmt.Sprintf("sid=%016d", i) }

// TestStandingTravels has a visitor use two instances in turn. Its evidence at one counts at the other. Its session
// is one client at both, even when the site changes its cookie, and stops counting when no instance reports it any
// longer. An instance doesn't pass on reports from others.
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
	testkit.Same(t, classify.Parts, b.ask(0, person, "/", nil).Evidence, "the evidence at the other instance")
	if v, ok := b.s.Visits(noon, person); !ok || v.Evidence != classify.Parts {
		t.Errorf("the other instance remembers %+v", v)
	}
	if carry(1, 0) > 0 {
		t.Error("a report from another instance is passed on")
	}
	if res := b.ask(time.Second, person, "/", []string{"Cookie: " + sid}); isSession(res) {
		t.Error("a cookie that has not come back yet is a session")
	}
	first := a.ask(time.Second, person, "/", []string{"Cookie: " + sid}, "Set-Cookie: sid=fedcba9876543210").Keys()[0]
	carry(0, time.Second)
	for _, session := range []string{sid, "sid=fedcba9876543210", sid} {
		testkit.Same(t, first, b.ask(time.Second, person, "/", []string{"Cookie: " + session}, "Set-Cookie: sid=0000000011111111").Keys()[0], "with %s, the client at the other instance", session)
	}
	carry(1, 2*time.Second)
	testkit.Same(t, first, a.ask(2*time.Second, person, "/", []string{"Cookie: sid=0000000011111111"}).Keys()[0], "the client with a cookie from the other instance")
	testkit.Same(t, 1, b.s.sessions.all.Len(), "sessions")
	if res := b.ask(2*time.Second, "203.0.113.1", "/", []string{"Cookie: " + sid}); isSession(res) {
		t.Error("in another network, the cookie is a session")
	}
	b.ask(3*time.Second, "192.0.2.1", "/", nil, Header+": 8")
	carry(1, 3*time.Second)
	testkit.Same(t, 8, a.ask(3*time.Second, "192.0.2.1", "/", nil).Standing, "standing, as the other instance vouches for it")
	if res := stranger.ask(3*time.Second, person, "/", []string{"Cookie: " + sid}); res.Evidence != 0 || isSession(res) {
		t.Errorf("without the secret, its evidence is %v", res.Evidence)
	}
	late := known.Counts + 3*time.Second
	testkit.Same(t, 1, a.ask(late, "192.0.2.1", "/", nil).Standing, "standing long after the report")
}
