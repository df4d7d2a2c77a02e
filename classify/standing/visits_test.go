package standing

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"tempomat/classify"
	"tempomat/limiter"
)

// TestPinsApply: a pin counts for whoever has its key, until it ends or is taken back.
func TestPinsApply(t *testing.T) {
	x := newStandingSite(t)
	var p classify.Pins
	own := limiter.Key{Class: "slash32", ID: "192.0.2.1"}
	judge := func(at time.Duration, address string) *classify.Result {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = address + ":1"
		var res classify.Result
		var visit Visit
		x.c.Classify(r, &res)
		x.s.Assess(noon.Add(at), r, &res, &visit)
		p.Apply(noon.Add(at), &res)
		return &res
	}
	for _, pin := range []classify.Pin{
		{Key: own, Standing: 8, Until: noon.Add(time.Hour)},
		{Key: limiter.Key{Class: "slash24", ID: "198.51.100.0/24"}, Standing: 0.5, Until: noon.Add(time.Hour)},
	} {
		if err := p.Set(noon, pin); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		at       time.Duration
		address  string
		standing float64
		proves   bool
	}{
		{0, "192.0.2.1", 8, true},
		{0, "192.0.2.2", 1, false},
		{0, "198.51.100.7", 0.5, false},
		{time.Hour, "192.0.2.1", 1, false},
	} {
		if res := judge(c.at, c.address); res.Standing != c.standing || res.Evidence.Proves() != c.proves {
			t.Errorf("%s after %v: standing %g, evidence %v", c.address, c.at, res.Standing, res.Evidence)
		}
	}
	if err := p.Set(noon, classify.Pin{Key: own}); err != nil {
		t.Fatal(err)
	}
	if res := judge(0, "192.0.2.1"); res.Standing != 1 {
		t.Errorf("taken back: standing %g", res.Standing)
	}
}

// TestVisitsAreLookedUp: what a client has shown can be asked for, and asking changes nothing.
func TestVisitsAreLookedUp(t *testing.T) {
	x := newStandingSite(t)
	if _, ok := x.s.Visits(noon, "192.0.2.1"); ok {
		t.Error("somebody is known who never came")
	}
	x.ask(0, "192.0.2.1", "/", nil)
	for _, part := range []string{"/a.css", "/b.css"} {
		x.ask(time.Second, "192.0.2.1", part, nil)
	}
	for range 2 {
		v, ok := x.s.Visits(noon.Add(2*time.Second), "192.0.2.1")
		if !ok || v.Hours != 1 || !v.First.Equal(noon) || v.Evidence != classify.Parts || v.Standing != 2 || v.ClientsBehind != 1 {
			t.Errorf("%t: %+v", ok, v)
		}
	}
}

// TestForgedStanding: nothing that a client shows counts where it claims to be a robot that
// it is not, but for what an administrator says.
func TestForgedStanding(t *testing.T) {
	x := newStandingSite(t)
	judged := func(address string, forged bool) (res classify.Result) {
		r := pageRequest(address)
		r.Header.Set("User-Agent", chrome131)
		x.c.Classify(r, &res)
		res.Forged = forged
		var visit Visit
		x.s.Assess(noon, r, &res, &visit)
		x.s.Answered(noon, r, &visit, http.StatusOK, http.Header{Header: {"8"}})
		return res
	}
	for _, address := range []string{"198.51.100.1", "10.0.0.1"} {
		judged(address, false)
	}
	res := judged("198.51.100.1", true)
	if res.Standing != classify.LeastStanding || res.Evidence&(classify.Forged|classify.Attested) != classify.Forged|classify.Attested || res.Evidence.Proves() {
		t.Errorf("standing %v by %s, proves %t", res.Standing, res.Evidence, res.Evidence.Proves())
	}
	if res := judged("198.51.100.1", false); res.Standing < 4 || res.Evidence&classify.Forged != 0 {
		t.Errorf("without the claim: standing %v by %s", res.Standing, res.Evidence)
	}
	if res := judged("10.0.0.1", true); res.Evidence&classify.Forged != 0 || res.Standing < 4 {
		t.Errorf("of a trusted network: standing %v by %s", res.Standing, res.Evidence)
	}
}
