package standing

import (
	"net/http"
	"testing"
	"time"

	"tempomat/classify"
)

// TestVisitsAreLookedUp: a client's evidence can be looked up, and a lookup changes nothing.
func TestVisitsAreLookedUp(t *testing.T) {
	x := newStandingSite(t)
	if _, ok := x.s.Visits(noon, "192.0.2.1"); ok {
		t.Error("a client that never came is known")
	}
	x.ask(0, "192.0.2.1", "/", nil)
	for _, part := range []string{"/a.css", "/b.css"} {
		x.ask(time.Second, "192.0.2.1", part, nil)
	}
	for range 2 {
		v, ok := x.s.Visits(noon.Add(2*time.Second), "192.0.2.1")
		if !ok || !v.First.Equal(noon) || v.Evidence != classify.Parts || v.Standing != 2 || v.ClientsBehind != 1 {
			t.Errorf("%t: %+v", ok, v)
		}
	}
}

// TestForgedStanding: no evidence helps a client that falsely claims to be a robot, unless its network is one that the
// administrator trusts.
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
		t.Errorf("without the claim, standing %v by %s", res.Standing, res.Evidence)
	}
	if res := judged("10.0.0.1", true); res.Evidence&classify.Forged != 0 || res.Standing < 4 {
		t.Errorf("from a trusted network, standing %v by %s", res.Standing, res.Evidence)
	}
}
