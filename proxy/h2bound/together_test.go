package h2bound

import (
	"errors"
	"io"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// givesUp is a connection whose client asks so often, gives each request up or leaves it to
// the end of the connection, and closes.
func givesUp(t *testing.T, all *Addresses, from string, requests int, resets bool) (flood Flood) {
	t.Helper()
	w := &wire{sent: [][]byte{[]byte(preface)}, room: -1}
	for n := range requests {
		w.sent = append(w.sent, request(n))
		if resets {
			w.sent = append(w.sent, encode(resetStream, 0, id(n), number(8)...))
		}
	}
	c := New(w, Options{Addresses: all, Client: netip.MustParseAddr(from)})
	_, err := io.ReadAll(c)
	errors.As(err, &flood)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	_ = c.Close() // net/http may do so again
	return flood
}

// TestConnectionsOfAnAddress: who is cut does not begin anew with the next connection.
func TestConnectionsOfAnAddress(t *testing.T) {
	for name, c := range map[string]struct {
		requests int
		resets   bool
	}{"reset": {990, true}, "left open": {250, false}, "one by one": {1, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := &Addresses{}
				began := 0
				for range 2 * mostTogether {
					if flood := givesUp(t, all, "2001:db8::1", c.requests, c.resets); flood == Unanswered {
						break
					} else if flood != "" {
						t.Fatal(flood)
					}
					began += c.requests
				}
				if began > mostTogether || began < mostTogether-c.requests {
					t.Errorf("%d requests were given up, want some %d", began, mostTogether)
				}
				if flood := givesUp(t, all, "2001:db8::2", 1, false); flood != Unanswered {
					t.Errorf("another one of the network: %q", flood)
				}
				if flood := givesUp(t, all, "2001:db8:0:1::1", 1, false); flood != "" {
					t.Errorf("another one: %q", flood)
				}
				time.Sleep(time.Second)
				if flood := givesUp(t, all, "2001:db8::1", togetherPerSecond-1, false); flood != "" {
					t.Errorf("a second later: %q", flood)
				}
				time.Sleep(time.Hour)
				givesUp(t, all, "2001:db8::1", 0, false)
				givesUp(t, all, "2001:db8:0:1::1", 0, false)
				if len(all.known) > 0 {
					t.Errorf("%d addresses are known at the end", len(all.known))
				}
			})
		})
	}
}

// TestAnsweredRequestsAreForgotten: who is answered may ask as often as it likes.
func TestAnsweredRequestsAreForgotten(t *testing.T) {
	l := newLink()
	all := &Addresses{}
	l.address, l.began = all.enter(netip.MustParseAddr("192.0.2.1")), time.Now()
	for n := range 3 * mostTogether {
		l.client(headers, endStream, id(n), 20, 0)
		l.server(headers, 0, id(n), 20, 0)
		l.server(data, endStream, id(n), 100, 0)
		if l.why != "" {
			t.Fatalf("request %d: %v", n, l.why)
		}
	}
}

// TestAddressesAreBounded: those without a connection are forgotten where there are many.
func TestAddressesAreBounded(t *testing.T) {
	all := &Addresses{}
	now := time.Now()
	here := all.enter(netip.MustParseAddr("192.0.2.1"))
	for n := range 2 * mostAddresses {
		a := all.enter(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}))
		a.begin(now)
		a.leave(now)
	}
	if len(all.known) > mostAddresses+1 || all.known[here.key] != here {
		t.Errorf("%d addresses are known", len(all.known))
	}
}
