package sim

import (
	"fmt"
	"net/netip"
	"testing"

	"tempomat/classify"
	"tempomat/limiter"
)

// networksOfRobot are the /16 networks that a robot comes from, with so many addresses each.
const networksOfRobot, addressesOfEach = 20, 25

// manyAddresses is a robot with a connection from each of 500 addresses of 20 networks, or as
// many robots.
func manyAddresses(agent func(i int) string) (cs []*Client) {
	for network := range networksOfRobot {
		for i := range addressesOfEach {
			at := 0x70000001 + uint32(network)<<16 + uint32(i)<<8
			cs = append(cs, crawlers(1, 1, at, 0, func(int) string { return agent(network*addressesOfEach + i) }, "/heavy")...)
		}
	}
	for _, c := range cs {
		c.Kind, c.Retry = "robot", 1
	}
	return cs
}

// TestRobotIsAClient: a robot that says who it is gets as much from 500 addresses as one
// client from one, whether it is verified or not; so do many names that nobody knows, all of
// them together. People do not notice.
func TestRobotIsAClient(t *testing.T) {
	named := func(name string) func(int) string { return func(int) string { return name } }
	for _, x := range []struct {
		what     string
		agent    func(i int) string
		verified bool
		most     float64 // that they get of what one client does
	}{
		{"verified", named("Mozilla/5.0 (compatible; ExampleBot/2.1)"), true, 1.15},
		{"by its name", named("Mozilla/5.0 (compatible; ExampleBot/2.1)"), false, 1.15},
		{"16 names", func(i int) string { return fmt.Sprintf("bot%c/1.0", 'a'+rune(i%16)) }, false, 1.15},
		{"500 names", func(i int) string { return fmt.Sprintf("bot%c%c/1.0", 'a'+rune(i/26), 'a'+rune(i%26)) }, false, 1.6}, // as many wait at a time that how far they are ahead counts no further
	} {
		s := Scenario{
			CPUs: 2, Workers: 16,
			clients: func() []*Client {
				rival := crawlers(1, 20, 0x30000001, 0, browser, "/heavy")
				rival[0].Kind, rival[0].From = "rival", 0
				return join(people(10), rival, manyAddresses(x.agent))
			},
		}
		if x.verified {
			all := classify.Crawler{Name: "examplebot", Agents: []string{"examplebot"}}
			for network := range networksOfRobot {
				all.Addresses = append(all.Addresses, netip.PrefixFrom(netip.AddrFrom4([4]byte{0x70, byte(network)}), 16))
			}
			s.Verified = []classify.Crawler{all}
		}
		w, err := NewWorld(1, s, limiter.Fair)
		if err != nil {
			t.Fatal(err)
		}
		w.Run(s.Clients(), Attack+20, Attack+90)
		used := func(kind string) float64 { return w.backend.usedBy[kind] - w.usedBy[kind] }
		t.Logf("%s: the robot used %.1f CPU-s, one client %.1f, people %.1f; people's p95 is %.0f ms",
			x.what, used("robot"), used("rival"), used("human"), w.Percentile("human", 0.95))
		if part := used("robot") / used("rival"); part > x.most || part < 0.8 {
			t.Errorf("%s: it got %.2f times what one client did", x.what, part)
		}
		if good := w.Good("human"); good < 0.98 {
			t.Errorf("%s: %.1f%% of people's pages are there within a second", x.what, 100*good)
		}
	}
}
