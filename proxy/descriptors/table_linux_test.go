package descriptors

import (
	"net"
	"strings"
	"testing"
	"time"
)

// One address opens three times as many connections as there are descriptors. A person
// of another keeps a connection all the while, others come, and descriptors never run out.
func TestFloodFromOneAddress(t *testing.T) {
	site, socket := start(t, bounds)
	dial := func(from string) net.Conn {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: hang}).Dial("tcp", site)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(hang))
		return c
	}
	person := dial("127.0.0.2")
	defer person.Close()
	for n := range 3 * tableLimit {
		attacker := dial("127.0.0.3")
		defer attacker.Close()
		if n%16 != 0 {
			continue
		}
		newcomer := dial("127.0.0.4")
		for _, c := range []net.Conn{person, newcomer} {
			if got := ask(t, c, "hello"); got != "hello" {
				t.Fatal(got)
			}
		}
		newcomer.Close()
	}
	if answer := ask(t, connect(t, "unix", socket), "full?"); !strings.HasPrefix(answer, "0 ") {
		t.Errorf("descriptors ran out: %s", answer)
	}
}
