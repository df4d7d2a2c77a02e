package classify

import (
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tempomat/limiter"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func pinOf(id string, standing float64, left time.Duration) Pin {
	return Pin{Key: limiter.Key{Class: "slash32", ID: id}, Standing: standing, Until: noon.Add(left)}
}

// TestPinsAreBounded checks what may be pinned, how strongly, for how long, and how often.
func TestPinsAreBounded(t *testing.T) {
	for says, pin := range map[string]Pin{
		"standing: 0.4; allowed is 0.5 to 8": pinOf("a", 0.4, time.Hour),
		"standing: 8.1":                      pinOf("a", 8.1, time.Hour),
		"standing: NaN":                      pinOf("a", math.NaN(), time.Hour),
		"for more than 0 s":                  pinOf("a", 1, 0),
		"604800 s, a week":                   pinOf("a", 1, LongestPin+time.Second),
		`no pin of slash32 "a"`:              pinOf("a", 0, 0),
		"no key has more than 64":            pinOf(strings.Repeat("a", 65), 1, time.Hour),
	} {
		var p Pins
		if err := p.Set(noon, pin); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", pin, err, says)
		}
	}
	var p, restored Pins
	if err := p.Set(noon, pinOf(strings.Repeat("a", maxID), 2, time.Second)); err != nil {
		t.Fatal(err)
	}
	if text, err := p.AppendBinary(nil); err != nil || restored.UnmarshalBinary(text) != nil || len(restored.All(noon)) != 1 {
		t.Errorf("what was allowed does not survive a restart: %v", err)
	}
	if err := p.Set(noon, pinOf(strings.Repeat("a", maxID), 0, 0)); err != nil {
		t.Fatal(err)
	}
	for i := range mostPins {
		if err := p.Set(noon, pinOf(fmt.Sprint(i), 2, time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Set(noon, pinOf("one more", 2, time.Hour)); err == nil {
		t.Error("there is no bound")
	}
	if err := p.Set(noon, pinOf("7", 4, time.Hour)); err != nil {
		t.Errorf("another standing for one of them: %v", err)
	}
	if err := p.Set(noon.Add(time.Minute), pinOf("one more", 2, time.Hour)); err != nil {
		t.Errorf("when all others have ended: %v", err)
	}
	if n := len(p.All(noon.Add(time.Minute))); n != 2 {
		t.Errorf("%d hold, want 2", n)
	}
}

// TestPinsSurvive keeps them over a restart, and believes nothing that is not allowed.
func TestPinsSurvive(t *testing.T) {
	var p, q Pins
	for i, id := range []string{"192.0.2.1", "2001:db8::/64"} {
		if err := p.Set(noon, pinOf(id, []float64{LeastStanding, MostStanding}[i], time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	saved, err := p.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.UnmarshalBinary(saved); err != nil || fmt.Sprint(q.All(noon)) != fmt.Sprint(p.All(noon)) {
		t.Errorf("%v, %v; want %v", err, q.All(noon), p.All(noon))
	}
	for _, bad := range []string{
		"", "[", `[{"Key":{"Class":"slash32","ID":"a"},"Standing":9,"Until":"2026-11-20T13:00:00Z"}]`,
		`[{"Key":{"Class":"slash32","ID":"a"},"Standing":0.4,"Until":"2026-11-20T13:00:00Z"}]`,
		`[{"Key":{"Class":"slash32","ID":"` + strings.Repeat("a", 65) + `"},"Standing":2,"Until":"2026-11-20T13:00:00Z"}]`,
		"[" + strings.Repeat(`{"Standing":1},`, mostPins) + `{"Standing":1}]`,
	} {
		if err := q.UnmarshalBinary([]byte(bad)); err == nil {
			t.Errorf("%.80s: no error", bad)
		}
	}
	if len(q.All(noon)) != 2 {
		t.Error("what was not allowed changed something")
	}
}

// TestMostPinsSurvive: as many as there may be are kept over a restart.
func TestMostPinsSurvive(t *testing.T) {
	var p, q Pins
	most := make(map[limiter.Key]Pin, mostPins)
	for i := range mostPins {
		pin := pinOf(fmt.Sprint(i), 2, time.Minute)
		most[pin.Key] = pin
	}
	p.store(most)
	saved, err := p.AppendBinary(nil)
	if err != nil || q.UnmarshalBinary(saved) != nil || len(q.All(noon)) != mostPins {
		t.Errorf("%d of %d, %v", len(q.All(noon)), mostPins, err)
	}
}

// TestPinsApply: the first key that is pinned counts, as long as its pin holds; from 1 on it
// vouches for the client.
func TestPinsApply(t *testing.T) {
	of := func(pins ...Pin) (*Pins, *Result) {
		c := mustNew(t, Config{AddressHeader: NoHeader, Classes: []Class{{Name: "slash32", By: Slash32}, {Name: "slash24", By: Slash24}}})
		var p Pins
		for _, pin := range pins {
			if err := p.Set(noon, pin); err != nil {
				t.Fatal(err)
			}
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "192.0.2.1:1"
		var res Result
		c.Classify(r, &res)
		res.Standing, res.Evidence = 3, Parts
		return &p, &res
	}
	network := func(standing float64) Pin {
		return Pin{Key: limiter.Key{Class: "slash24", ID: "192.0.2.0/24"}, Standing: standing, Until: noon.Add(time.Hour)}
	}
	for name, x := range map[string]struct {
		pins     []Pin
		after    time.Duration
		standing float64
		evidence Evidence
	}{
		"no pins":            {nil, 0, 3, Parts},
		"another's":          {[]Pin{pinOf("192.0.2.2", 2, time.Hour)}, 0, 3, Parts},
		"its own":            {[]Pin{pinOf("192.0.2.1", 2, time.Hour)}, 0, 2, Parts | Attested},
		"one that vouches":   {[]Pin{pinOf("192.0.2.1", 1, time.Hour)}, 0, 1, Parts | Attested},
		"one that does not":  {[]Pin{pinOf("192.0.2.1", 0.5, time.Hour)}, 0, 0.5, Parts},
		"until its last":     {[]Pin{pinOf("192.0.2.1", 2, time.Second)}, time.Second - 1, 2, Parts | Attested},
		"one that has ended": {[]Pin{pinOf("192.0.2.1", 2, time.Second)}, time.Second, 3, Parts},
		"its network's":      {[]Pin{network(4)}, 0, 4, Parts | Attested},
		"of both its own":    {[]Pin{network(4), pinOf("192.0.2.1", 0.5, time.Hour)}, 0, 0.5, Parts},
		"its own has ended":  {[]Pin{network(4), pinOf("192.0.2.1", 2, time.Second)}, time.Minute, 4, Parts | Attested},
	} {
		p, res := of(x.pins...)
		if p.Apply(noon.Add(x.after), res); res.Standing != x.standing || res.Evidence != x.evidence {
			t.Errorf("%s: standing %v for %v; want %v for %v", name, res.Standing, res.Evidence, x.standing, x.evidence)
		}
	}
}

// TestKeysAreLookedUp: the keys of an address are those that its requests have.
func TestKeysAreLookedUp(t *testing.T) {
	c, err := New(Config{AddressHeader: NoHeader, Classes: []Class{
		{Name: "slash32", By: Slash32}, {Name: "paths", By: PathShape}, {Name: "slash16", By: Slash16}, {Name: "userAgent", By: UserAgent},
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/a/b?x=1", nil)
	r.RemoteAddr = "[2001:db8:1:2::3]:1"
	r.Header.Set("User-Agent", "Mozilla/5.0 (compatible; Googlebot/2.1)")
	var res Result
	c.Classify(r, &res)
	keys := res.Keys()
	if got := c.NetworkKeys(res.Client); fmt.Sprint(got) != fmt.Sprint([]limiter.Key{keys[0], keys[2]}) {
		t.Errorf("got %v of %v", got, keys)
	}
	family, got := c.AgentKeys(r.UserAgent())
	if family != res.Agent || fmt.Sprint(got) != fmt.Sprint(keys[3:]) {
		t.Errorf("got %q, %v of %v", family, got, keys)
	}
	if again, _ := c.AgentKeys(family); again != family {
		t.Errorf("the family %q is of the family %q", family, again)
	}
	if got := ShapeOf(r.URL); got != res.Shape {
		t.Errorf("the shape is %q, want %q", got, res.Shape)
	}
}
