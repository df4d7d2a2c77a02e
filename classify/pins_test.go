package classify

import (
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func pinOf(id string, standing float64, left time.Duration) Pin {
	return Pin{Key: limiter.Key{Class: "slash32", ID: id}, Standing: standing, Until: noon.Add(left)}
}

// TestPinsAreBounded checks which keys can be pinned, at which standing, for how long, and how many.
func TestPinsAreBounded(t *testing.T) {
	for says, pin := range map[string]Pin{
		"standing: 0.4; it must be 0.5 to 8": pinOf("a", 0.4, time.Hour),
		"standing: 8.1":                      pinOf("a", 8.1, time.Hour),
		"standing: NaN":                      pinOf("a", math.NaN(), time.Hour),
		"for more than 0 s":                  pinOf("a", 1, 0),
		"604800 s (a week)":                  pinOf("a", 1, LongestPin+time.Second),
		`no pin for slash32 "a"`:             pinOf("a", 0, 0),
		"no key has more than 64":            pinOf(strings.Repeat("a", 65), 1, time.Hour),
	} {
		var p Pins
		if err := p.Set(noon, pin); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", pin, err, says)
		}
	}
	var p, restored Pins
	testkit.Must(t, p.Set(noon, pinOf(strings.Repeat("a", maxID), 2, time.Second)))
	if text, err := p.AppendBinary(nil); err != nil || restored.UnmarshalBinary(text) != nil || len(restored.All(noon)) != 1 {
		t.Errorf("a valid pin does not survive a restart: %v", err)
	}
	testkit.Must(t, p.Set(noon, pinOf(strings.Repeat("a", maxID), 0, 0)))
	for i := range mostPins {
		testkit.Must(t, p.Set(noon, pinOf(fmt.Sprint(i), 2, time.Minute)))
	}
	if text, err := p.AppendBinary(nil); err != nil || restored.UnmarshalBinary(text) != nil || len(restored.All(noon)) != mostPins {
		t.Errorf("of %d pins, %d survive a restart: %v", mostPins, len(restored.All(noon)), err)
	}
	if err := p.Set(noon, pinOf("one more", 2, time.Hour)); err == nil {
		t.Error("there is no bound")
	}
	testkit.Must(t, p.Set(noon, pinOf("7", 4, time.Hour)))                         // a new standing for one of them
	testkit.Must(t, p.Set(noon.Add(time.Minute), pinOf("one more", 2, time.Hour))) // after all others have expired
	testkit.Same(t, 2, len(p.All(noon.Add(time.Minute))), "pins in force")
}

// TestPinsSurvive checks that pins survive a restart, and that invalid pins in the file are rejected.
func TestPinsSurvive(t *testing.T) {
	var p, q Pins
	for i, id := range []string{"192.0.2.1", "2001:db8::/64"} {
		testkit.Must(t, p.Set(noon, pinOf(id, []float64{LeastStanding, MostStanding}[i], time.Hour)))
	}
	saved, err := p.AppendBinary(nil)
	testkit.Must(t, err)
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
		t.Error("an invalid pin changed something")
	}
}

// TestPinsApply: the first pinned key counts, until its pin expires. A standing of 1 or more vouches for the
// client.
func TestPinsApply(t *testing.T) {
	of := func(pins ...Pin) (*Pins, *Result) {
		c := New(Config{AddressHeader: NoHeader, Classes: []Class{{Name: "slash32", By: Slash32}, {Name: "slash24", By: Slash24}}})
		var p Pins
		for _, pin := range pins {
			testkit.Must(t, p.Set(noon, pin))
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

// TestKeysAreLookedUp: the keys found for an address are those of its requests.
func TestKeysAreLookedUp(t *testing.T) {
	c := New(Config{AddressHeader: NoHeader, Classes: []Class{
		{Name: "slash32", By: Slash32}, {Name: "paths", By: PathShape}, {Name: "slash16", By: Slash16}, {Name: "userAgent", By: UserAgent},
	}})
	r := httptest.NewRequest("GET", "/a/b?x=1", nil)
	r.RemoteAddr = "[2001:db8:1:2::3]:1"
	r.Header.Set("User-Agent", "Mozilla/5.0 (compatible; Googlebot/2.1)")
	var res Result
	c.Classify(r, &res)
	keys := res.Keys()
	testkit.Same(t, fmt.Sprint([]limiter.Key{keys[0], keys[2]}), fmt.Sprint(c.NetworkKeys(res.Client)), "keys of the network")
	family, got := c.AgentKeys(r.UserAgent())
	if family != res.Agent || fmt.Sprint(got) != fmt.Sprint(keys[3:]) {
		t.Errorf("got %q, %v from %v", family, got, keys)
	}
	if again, _ := c.AgentKeys(family); again != family {
		t.Errorf("the family of the family %q is %q", family, again)
	}
	testkit.Same(t, res.Shape, ShapeOf(r.URL), "the shape")
}
