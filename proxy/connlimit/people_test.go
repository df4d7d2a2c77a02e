package connlimit

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"
)

// person is a user with a browser: up to six connections.
type person struct {
	address netip.Addr
	conns   []*modelConn
}

// acts opens a connection, sends a request, finishes it, or disconnects.
func (p *person) acts(t *testing.T, table *Table, now time.Time, random *rand.Rand) {
	if len(p.conns) == 0 || len(p.conns) < 6 && random.IntN(3) == 0 {
		c := &modelConn{}
		if c.Conn = table.Enter(now, p.address, false, c); c.Conn == nil {
			t.Fatalf("a person at %s was not let in", p.address)
		}
		p.conns = append(p.conns, c)
		return
	}
	i := random.IntN(len(p.conns))
	c := p.conns[i]
	switch {
	case c.busy:
		c.busy = false
		c.Idle(now)
	case random.IntN(4) > 0:
		c.busy = c.Busy()
	default:
		c.Leave()
		p.conns = append(p.conns[:i], p.conns[i+1:]...)
	}
}

// TestPeopleAreNotHit: as long as an attacker holds many more connections than people do, people lose no new
// connection, and no waiting one, however long it waits. The attacker is an address, even in the people's own
// network, or another network.
func TestPeopleAreNotHit(t *testing.T) {
	elsewhere := []string{"192.0.2.%d", "192.0.%d.1", "2001:db9:1:%d::1", "2001:db9:%d::1"}
	near := append([]string{"198.51.100.%d", "198.51.%d.1", "2001:db8:1:%d::1", "2001:db8:%d::1"}, elsewhere...)
	for name, c := range map[string]struct {
		attacker func(n int) string
		people   []string
	}{
		"one address":     {func(int) string { return "198.51.100.1" }, near},
		"one /64":         {func(n int) string { return nth("2001:db8:1:1::%d", n%9999) }, near},
		"20 of a /24":     {func(n int) string { return nth("198.51.100.%d", n%20) }, near},
		"20 of a /16":     {func(n int) string { return nth("198.51.%d.7", n%20) }, near},
		"20 of a /32":     {func(n int) string { return nth("2001:db8:%d::1", n%20) }, near},
		"a /24, few each": {func(n int) string { return nth("198.51.100.%d", n%200) }, elsewhere},
		"a /48, few each": {func(n int) string { return nth("2001:db8:1:%d::1", n%200) }, elsewhere},
		"a /16, few each": {func(n int) string { return fmt.Sprintf("198.51.%d.%d", n%200, n/200%2) }, elsewhere},
		"a /32, few each": {func(n int) string { return nth("2001:db8:%d::1", n%200) }, elsewhere},
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				attack(t, rand.New(rand.NewPCG(seed, 0)), c.attacker, c.people)
			})
		}
	}
}

// attack fills a table, and continues while 40 people act.
func attack(t *testing.T, random *rand.Rand, attacker func(n int) string, people []string) {
	const most = 1000 // of which 8 count as few
	table, now := New(start, most), start
	var persons []*person
	for i := range 40 {
		persons = append(persons, &person{address: netip.MustParseAddr(nth(people[i%len(people)], 210+i))})
	}
	var requests [200]*Conn // some of the attacker's requests, which take a long time
	for n := range 5 * most {
		now = now.Add(time.Millisecond)
		c := table.Enter(now, netip.MustParseAddr(attacker(n)), false, nobody{})
		if c != nil && random.IntN(2) == 0 {
			c.Busy()
			i := random.IntN(len(requests))
			c, requests[i] = requests[i], c
			if c != nil {
				c.Idle(now)
			}
		}
		if n >= most/2 {
			persons[random.IntN(len(persons))].acts(t, table, now, random)
		}
	}
	for _, p := range persons {
		for _, c := range p.conns {
			if c.closed > 0 {
				t.Fatalf("a person at %s lost a connection", p.address)
			}
		}
	}
	if s := table.Stats(0); s.Open < most-1 || s.Shed+s.Refused < most {
		t.Errorf("that was no attack: %+v", s)
	}
	verify(t, table)
}

// TestRequestsWithoutEndKeepNobodyOut: endless uploads from a few addresses, or from many of one network, keep
// no client out. They lose the connections that new clients need, but a household loses none.
func TestRequestsWithoutEndKeepNobodyOut(t *testing.T) {
	const most = 1000
	for name, attacker := range map[string]func(n int) string{
		"one address":     func(int) string { return "198.51.0.1" },
		"four addresses":  func(n int) string { return nth("198.51.%d.1", n%4) },
		"eight addresses": func(n int) string { return nth("198.51.%d.1", n%8) },
		"a /24":           func(n int) string { return nth("198.51.100.%d", n%250) },
		"seven /24":       func(n int) string { return nth(nth("198.%d", n%7)+".100.%d", n/7%100) },
		"a /16":           func(n int) string { return nth(nth("198.51.%d", n%250)+".%d", n/250) },
		"three /16":       func(n int) string { return nth(nth("198.%d", n%3)+".%d.1", n/3%200) },
		"IPv6, a /48":     func(n int) string { return nth("2001:db8:0:%d::1", n%250) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t, most)
			r.busy(r.enter(1, "203.0.113.1")...)
			for n := range most - 1 {
				if g := r.enter(1, attacker(n))[0]; g.Conn != nil {
					r.busy(g)
				}
			}
			for n := range 100 {
				if g := r.enter(1, nth("192.0.2.%d", n))[0]; g.Conn == nil || !g.Busy() {
					t.Fatalf("newcomer %d was not let in", n)
				}
			}
			if r.guests[0].closed > 0 {
				t.Error("the request of somebody who has one was cut")
			}
			verify(t, r.table)
		})
	}
}
