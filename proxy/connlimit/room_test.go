package connlimit

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"
)

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
