package limiter

import (
	"fmt"
	"testing"

	"tempomat/internal/testkit"
)

// TestArrivalsNameTheirKeys: each key is charged once, up to MaxKeys keys. Without a client, no key is charged.
func TestArrivalsNameTheirKeys(t *testing.T) {
	session := Key{Class: "session", ID: "s"}
	var many []Key
	for i := range MaxKeys {
		many = append(many, host(fmt.Sprint(i)))
	}
	for name, c := range map[string]struct {
		a    Arrival
		want []Key
	}{
		"nobody":                      {Arrival{Others: many[:1]}, nil},
		"an address":                  {Arrival{Client: host("a")}, []Key{host("a")}},
		"an address and its networks": {Arrival{Client: host("a"), Others: networks("n", "w")}, append([]Key{host("a")}, networks("n", "w")...)},
		"a session":                   {Arrival{Client: session, Within: host("a"), Others: networks("n")}, append([]Key{session, host("a")}, networks("n")...)},
		"too many keys":               {Arrival{Client: session, Within: host("a"), Others: many}, append([]Key{session, host("a")}, many[:MaxKeys-2]...)},
	} {
		var got []Key
		named := c.a.named()
		for i := range c.a.keys(named) {
			got = append(got, *c.a.key(i, named))
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestSessionWithoutAnAddress: a session without an address is a client of its own. Its network doesn't count
// as its address, and doesn't have the share of several clients.
func TestSessionWithoutAnAddress(t *testing.T) {
	for _, within := range []Key{{}, {Class: "gone", ID: "a"}} {
		w := newWorld(roomy(Fair))
		x := w.Arrive(w.now, Arrival{Client: host("s"), Within: within, Others: networks("n"), Session: true, ClientsBehind: 4, Guess: second, Sure: true})
		if !x.phase.running() || x.whole() != nil || x.own().Bucket.Key != host("s") {
			t.Errorf("%+v is the whole", x.whole())
		}
		if row, ok := w.Find(w.now, networks("n")[0]); !ok || row.Client != nil {
			t.Errorf("the session's network is a client: %+v", row)
		}
		testkit.Same(t, 0.1, w.balance(w.now, networks("n")[0]).Rate, "the session's network earns")
		w.Leave(w.now, x)
	}
}
