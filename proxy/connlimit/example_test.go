package connlimit_test

import (
	"fmt"
	"net/netip"
	"time"

	"tempomat/proxy/connlimit"
)

// conn stands for a net.Conn.
type conn string

func (c conn) Close() error {
	fmt.Println("closed:", c)
	return nil
}

// A server tells of each connection, and of each request on it.
func Example() {
	now := time.Now()
	table := connlimit.New(now, 10)
	person, crawler := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.1")

	c := table.Enter(now, person, false, conn("the person's"))
	for n := range 9 {
		table.Enter(now.Add(time.Second), crawler, false, conn(fmt.Sprint("the crawler's ", n)))
	}
	for n := range 2 { // there is no room left
		now = now.Add(time.Minute)
		table.Enter(now, crawler, false, conn(fmt.Sprint("the crawler's next ", n)))
	}
	if c.Busy() { // a request has come
		c.Idle(now.Add(time.Second)) // and its answer is complete
	}
	c.Leave() // at the end

	s := table.Stats(1)
	fmt.Println(s.Open, "open,", s.Shed, "shed, most by", s.Top[0].Prefix)
	// Output:
	// closed: the crawler's 0
	// closed: the crawler's 1
	// 9 open, 2 shed, most by 198.51.100.1/32
}
