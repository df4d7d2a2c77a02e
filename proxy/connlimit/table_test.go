package connlimit

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// hold is a number of connections of an address, or of each of several addresses in a network such as "192.0.2.%d".
type hold struct {
	from      string
	addresses int // number of addresses; 0: from is an address
	each      int
	busy      bool
}

// fill adds the connections of the holds.
func (r *room) fill(holds ...hold) {
	r.t.Helper()
	for _, h := range holds {
		for i := range max(1, h.addresses) {
			from := h.from
			if h.addresses > 0 {
				from = nth(h.from, i)
			}
			if in := r.enter(h.each, from); h.busy {
				r.busy(in...)
			}
		}
	}
}

// TestWhoGives: each case fills a table of 64, in which 8 are few, and names the connection that makes room for
// the next one.
func TestWhoGives(t *testing.T) {
	const one, two, three, four, stranger, next = "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4", "198.51.100.1", "203.0.113.1"
	for name, c := range map[string]struct {
		fill []hold
		more func(r *room) // happens after the table was filled
		next string
		want int
	}{
		"below the bound nobody":                  {fill: []hold{{one, 0, 63, false}}, next: one, want: -1},
		"who holds most, its oldest":              {fill: []hold{{one, 0, 20, false}, {stranger, 0, 44, false}}, next: next, want: 20},
		"also of IPv6, by /64":                    {fill: []hold{{stranger, 0, 30, false}, {"2001:db8::%d", 34, 1, false}}, next: next, want: 30},
		"a newcomer's own address":                {fill: []hold{{one, 0, 20, false}, {stranger, 0, 44, false}}, next: stranger, want: 20},
		"not even for another of the address":     {fill: []hold{{"192.0.2.%d", 4, 16, true}}, next: one, want: 64},
		"the newcomer, if all others have one":    {fill: []hold{{"192.%d.2.1", 64, 1, true}}, next: next, want: 64},
		"a balancer is one of those":              {fill: []hold{{balancer, 0, 53, false}, {stranger, 0, 11, false}}, next: next, want: 53},
		"its oldest where nobody holds more":      {fill: []hold{{balancer, 0, 56, false}, {stranger, 0, 8, false}}, next: next, want: 0},
		"its requests never":                      {fill: []hold{{balancer, 0, 64, true}}, next: next, want: 64},
		"nobody who holds few while others more":  {fill: []hold{{"192.0.2.%d", 50, 1, false}, {stranger, 0, 14, false}}, next: next, want: 50},
		"of those who hold few who waits longest": {fill: []hold{{one, 0, 4, true}, {"198.51.100.%d", 52, 1, false}, {two, 0, 8, false}}, next: next, want: 4},
		"none with a request":                     {fill: []hold{{one, 0, 16, true}, {two, 0, 16, false}, {three, 0, 16, true}, {four, 0, 16, true}}, next: next, want: 16},
		// The address that holds 31 loses a connection first.
		"one with a request, where an address has a large part": {fill: []hold{{one, 0, 17, true}, {two, 0, 16, true}, {three, 0, 31, false}}, next: next, want: 33},
		// In the network, the address that holds most loses it.
		"a request of the network that has a large part": {fill: []hold{{"192.%d.2.1", 54, 1, true}, {"198.51.100.%d", 8, 1, true}, {"198.51.100.8", 0, 2, true}}, next: next, want: 62},
		"the one idle for longest, not the first to come": {
			fill: []hold{{one, 0, 64, false}},
			more: func(r *room) { r.idle(r.guests[1:]...); r.idle(r.guests[0]) },
			next: next, want: 1,
		},
		"idle before the first request comes": {
			more: func(r *room) { r.idle(r.enter(32, one)...); r.enter(32, one) },
			next: next, want: 0,
		},
		"one without a request, once it takes long": {
			fill: []hold{{one, 0, 64, false}},
			more: func(r *room) { r.idle(r.guests[:32]...); r.idle(r.guests[33:]...) },
			next: next, want: 32,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t, 64)
			r.fill(c.fill...)
			if c.more != nil {
				c.more(r)
			}
			if out := r.closed(); len(out) > 0 {
				t.Fatalf("%v were closed as the table was filled", out)
			}
			r.enter(1, c.next)
			out := r.closed()
			if want := c.want >= 0; want != (len(out) == 1) || want && out[0] != c.want {
				t.Errorf("%v were closed, want %d", out, c.want)
			}
			verify(t, r.table)
		})
	}
}

// TestLargePartGivesRequests: an address with a large part of the connections, all with requests, loses some of
// them until it no longer has a large part.
func TestLargePartGivesRequests(t *testing.T) {
	r := newRoom(t, 64)
	r.busy(r.enter(20, "192.0.2.1")...)
	for i := range 44 {
		r.busy(r.enter(1, nth("198.%d.100.1", i))...)
	}
	for range 4 { // from 20 to 16, a fourth of 64
		r.busy(r.enter(1, "203.0.113.1")...)
		if out := r.closed(); len(out) != 1 || out[0] >= 20 {
			t.Fatalf("%v were closed, want one of the first 20", out)
		}
	}
	r.enter(1, "203.0.113.1")
	if out := r.closed(); len(out) != 1 || out[0] != 68 {
		t.Errorf("%v were closed, want the newcomer", out)
	}
	verify(t, r.table)
}

// TestWeightOfNetworks: a network weighs a 16th or a 64th of its connections, and its heaviest address loses one if
// no address weighs more. Half a network has no weight. All this is certain if the whole table is examined.
func TestWeightOfNetworks(t *testing.T) {
	for name, c := range map[string]struct {
		flood     string // addresses of a network, with 8 connections each
		step      int
		addresses int
		weight    int // weight of the network
	}{
		"/24":  {"192.0.2.%d", 1, 24, 12},
		"/16":  {"192.0.%d.1", 1, 96, 12},
		"/48":  {"2001:db8:1:%x::1", 0xffff / 24, 24, 12},
		"/32":  {"2001:db8:%x::1", 0xffff / 96, 96, 12},
		"none": {"%d.0.2.1", 1, 96, 0},
	} {
		for _, office := range []int{10, 11, 13, 14} {
			t.Run(fmt.Sprint(name, " and an office of ", office), func(t *testing.T) {
				r := newRoom(t, 8*c.addresses+office)
				r.table.looks = 1000
				r.enter(office, "203.0.113.1")
				for i := range c.addresses {
					r.enter(8, nth(c.flood, (i+1)*c.step))
				}
				r.enter(1, "203.0.114.1")
				if out := r.closed(); len(out) != 1 || (out[0] >= office) != (office < c.weight) || out[0] > 0 && out[0] < office {
					t.Errorf("%v were closed", out)
				}
			})
		}
		t.Run(name+" and an office of it", func(t *testing.T) {
			r := newRoom(t, 8*c.addresses+9)
			r.table.looks = 1000
			for i := range c.addresses {
				r.enter(8, nth(c.flood, (i+1)*c.step))
			}
			r.enter(9, nth(c.flood, 0xfe*max(1, c.step/0xfe)))
			r.enter(1, "203.0.114.1")
			if out := r.closed(); len(out) != 1 || out[0] != 8*c.addresses {
				t.Errorf("%v were closed, want the first of the office", out)
			}
		})
		t.Run(name+" with requests only", func(t *testing.T) {
			r := newRoom(t, 8*c.addresses)
			r.table.looks = 1000
			for i := range c.addresses {
				r.busy(r.enter(8, nth(c.flood, (i+1)*c.step))...)
			}
			r.enter(1, "203.0.114.1")
			if out := r.closed(); len(out) != 1 || (out[0] == 8*c.addresses) != (c.weight == 0) {
				t.Errorf("%v were closed, want the newcomer only without a network", out)
			}
		})
	}
}

func TestClosedConnectionsSaySo(t *testing.T) {
	r := newRoom(t, 1)
	g := r.enter(1, "192.0.2.1")[0]
	r.enter(1, "192.0.2.2")
	if g.Busy() || g.Idle(r.now) {
		t.Error("a connection that was closed may go on")
	}
	g.Leave()
	r.guests[1].Leave()
	r.guests[1].Leave()
	if s := r.table.Stats(9); s.Open != 0 || s.Shed != 1 || s.Addresses != 0 {
		t.Errorf("%+v", s)
	}
	last := r.guests[1]
	if last.Busy() || last.Idle(r.now) {
		t.Error("one that has left may go on")
	}
	verify(t, r.table)
}

// TestTimesOutOfOrder: times that arrive out of order don't matter.
func TestTimesOutOfOrder(t *testing.T) {
	r := newRoom(t, 3)
	r.now = start.Add(time.Hour)
	r.enter(2, "192.0.2.1")
	r.now = start
	r.enter(1, "192.0.2.1")
	verify(t, r.table)
	r.enter(1, "192.0.2.2")
	if out := r.closed(); len(out) != 1 || out[0] != 2 {
		t.Errorf("%v were closed", out)
	}
}

func TestShed(t *testing.T) {
	r := newRoom(t, 100)
	if r.table.Shed() {
		t.Error("an empty table gave something")
	}
	r.enter(3, "192.0.2.1")
	r.busy(r.guests[0])
	for _, want := range []int{1, 2} {
		if !r.table.Shed() {
			t.Fatal("nothing was closed")
		}
		if out := r.closed(); len(out) != 1 || out[0] != want {
			t.Errorf("%v were closed, want %d", out, want)
		}
	}
	if r.table.Shed() || len(r.closed()) != 0 {
		t.Error("a request was cut")
	}
	if s := r.table.Stats(0); s.Open != 1 || s.Shed != 2 {
		t.Errorf("%+v", s)
	}
}

// TestShedCutsNoRequests: busy connections of a load balancer or in a small table are not cut.
func TestShedCutsNoRequests(t *testing.T) {
	for name, c := range map[string]struct {
		most, n int
		from    string
	}{
		"a balancer":    {64, 40, balancer},
		"a small table": {8, 8, "192.0.2.1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t, c.most)
			r.busy(r.enter(c.n, c.from)...)
			if r.table.Shed() {
				t.Errorf("%v were closed", r.closed())
			}
		})
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is the time at which all tests begin.
var start = time.Unix(1_000_000_000, 0)

// flag is a connection that remembers that it was closed.
type flag struct{ closed int }

func (f *flag) Close() error { f.closed++; return nil }

// guest is a connection of a test.
type guest struct {
	*Conn
	flag
	from string
}

// room is a table and its connections.
type room struct {
	t      *testing.T
	table  *Table
	now    time.Time
	guests []*guest
}

func newRoom(t *testing.T, most int) *room { return &room{t: t, table: New(start, most), now: start} }

// enter adds n connections of an address, one per second.
func (r *room) enter(n int, from string) (in []*guest) {
	r.t.Helper()
	for range n {
		r.now = r.now.Add(time.Second)
		g := &guest{from: from}
		g.Conn = r.table.Enter(r.now, netip.MustParseAddr(from), from == balancer, g)
		if (g.Conn == nil) != (g.closed == 1) {
			r.t.Fatalf("a newcomer: let in: %v, closed %d times", g.Conn != nil, g.closed)
		}
		in = append(in, g)
	}
	r.guests = append(r.guests, in...)
	return in
}

// balancer is the address of a trusted load balancer.
const balancer = "10.0.0.1"

// idle makes each connection serve a request, one per second, and wait for the next one.
func (r *room) idle(guests ...*guest) {
	r.t.Helper()
	for _, g := range guests {
		r.now = r.now.Add(time.Second)
		if !g.Busy() || !g.Idle(r.now) {
			r.t.Fatal("an open connection was said to be closed")
		}
	}
}

func (r *room) busy(guests ...*guest) {
	r.t.Helper()
	for _, g := range guests {
		if !g.Busy() {
			r.t.Fatal("an open connection was said to be closed")
		}
	}
}

// closed returns the numbers of the connections that were closed since the last call.
func (r *room) closed() (out []int) {
	for i, g := range r.guests {
		if g.closed > 1 {
			r.t.Errorf("%s was closed %d times", g.from, g.closed)
		}
		if g.closed > 0 {
			out = append(out, i)
			g.closed = 0
		}
	}
	return out
}

// nth returns the nth address of a network such as "192.0.2.%d".
func nth(network string, n int) string { return fmt.Sprintf(network, n) }
