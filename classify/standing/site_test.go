package standing

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tempomat/classify"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// site is a Standing, and what clients do at it.
type standingSite struct {
	t      *testing.T
	c      *classify.Classifier
	s      *Judge
	status int    // of its answers; 0: 200
	body   []byte // of its answers; nil: nobody reads it
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
	if x.body != nil {
		if page := x.s.Page(noon.Add(at), r, &visit, h); page != nil {
			for body := x.body; len(body) > 0; body = body[min(len(body), 1000):] {
				_, _ = page.Write(body[:min(len(body), 1000)])
			}
			page.End()
		}
	}
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
