package front

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"tempomat/internal/testkit"
)

// TestTurns: of those that wait, one of each address comes before the second one of any.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(2)
		var mu sync.Mutex
		var came []string
		for range 2 { // they compute
			if turns.take("busy") {
				t.Error("it waits though there is room")
			}
		}
		for i, of := range []string{"flood", "flood", "flood", "flood", "a", "flood", "b", "a"} {
			go func() {
				turns.take(of)
				mu.Lock()
				came = append(came, fmt.Sprint(of, i))
				mu.Unlock()
			}()
			synctest.Wait() // they come in this order
		}
		if len(came) > 0 {
			t.Errorf("%q do not wait", came)
		}
		for range 8 {
			turns.done()
			synctest.Wait()
		}
		want := "flood0 a4 b6 flood1 a7 flood2 flood3 flood5"
		if got := strings.Join(came, " "); got != want {
			t.Errorf("they come in the order %s, want %s", got, want)
		}
		turns.done()
		turns.done()
		if turns.free != 2 || len(turns.lines) != 0 || len(turns.order) != 0 {
			t.Errorf("at the end %d may compute, %d lines", turns.free, len(turns.lines))
		}
	})
}

// TestTurnsOfAny: never do more compute than may, nobody is forgotten, and whoever waits has
// no more before it than one of each other address for each of its own.
func TestTurnsOfAny(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			most := rapid.IntRange(1, 4).Draw(r, "most")
			turns := newTurns(most)
			var mu sync.Mutex
			var order []string
			computing := 0
			waits := map[string]int{}
			for range rapid.IntRange(1, 40).Draw(r, "steps") {
				if computing > 0 && rapid.Bool().Draw(r, "done") {
					computing--
					turns.done()
				} else {
					of := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "of")
					waits[of]++
					go func() {
						turns.take(of)
						mu.Lock()
						defer mu.Unlock()
						order = append(order, of)
						computing++
						waits[of]--
					}()
				}
				synctest.Wait()
				idle := most - computing
				waiting := waits["a"] + waits["b"] + waits["c"]
				if idle < 0 || idle > 0 && waiting > 0 {
					r.Fatalf("%d of %d compute, %d wait", computing, most, waiting)
				}
			}
			before := len(order)
			distinct := 0
			for _, n := range waits {
				distinct += min(n, 1)
			}
			for computing > 0 {
				computing--
				turns.done()
				synctest.Wait()
			}
			if first := slices.Clone(order[before:min(before+distinct, len(order))]); len(slices.Compact(slices.Sorted(slices.Values(first)))) != distinct {
				r.Fatalf("%q come first, of %d addresses", first, distinct)
			}
			if waits["a"]+waits["b"]+waits["c"] > 0 || len(turns.lines) > 0 {
				r.Fatalf("%v wait for ever", waits)
			}
		})
	})
}

func TestTurnOf(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:4711": "192.0.2.1", "[::ffff:192.0.2.1]:4711": "192.0.2.1", "[2001:db8:1:2:3::4]:1": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1": "fe80::/64", "@": "@", "": "",
	} {
		if got := turnOf(remote, false); got != want {
			t.Errorf("%s: %q, want %q", remote, got, want)
		}
		if got := turnOf(remote, true); got != remote {
			t.Errorf("%s, trusted: %q", remote, got)
		}
	}
}

// TestSilentHandshakes: who begins a handshake and says no more has no turn: others are served,
// however many they are; and no turn is lost with those that fail.
func TestSilentHandshakes(t *testing.T) {
	dial, l, s, seen := overTLS(t, http.HandlerFunc(script), nil)
	var silent []net.Conn
	for i := range 50 {
		c := connect(t, l)
		silent = append(silent, c)
		switch i % 3 {
		case 0:
			_, _ = c.Write([]byte{22, 3, 1, 1, 0, 1}) // the begin of a hello
		case 1: // all of it, and no answer to what the server says
			wire := &corkedWire{TCPConn: c}
			go func() {
				_ = tls.Client(wire, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}).Handshake()
			}()
		}
	}
	for range 20 {
		_ = dial().Close()
	}
	for _, c := range silent {
		_ = c.Close()
	}
	for range 50 + 20 {
		<-seen.all
	}
	s.turns.mu.Lock()
	defer s.turns.mu.Unlock()
	if want := newServerTurns(); s.turns.free != want || len(s.turns.lines) > 0 {
		t.Errorf("%d may compute at the end, want %d; %d wait", s.turns.free, want, len(s.turns.lines))
	}
}

func newServerTurns() int { return NewServer(nil, Options{}).turns.free }

// TestGoneBeforeItsTurn: nothing is computed for who has left while it waited.
func TestGoneBeforeItsTurn(t *testing.T) {
	_, l, s, seen := overTLS(t, http.HandlerFunc(script), nil)
	for range newServerTurns() {
		s.turns.take("busy")
	}
	c := connect(t, l)
	hello := make(chan error, 1)
	go func() { hello <- tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake() }()
	testkit.Eventually(t, "it waits for its turn", func() bool {
		s.turns.mu.Lock()
		defer s.turns.mu.Unlock()
		return len(s.turns.lines) == 1
	})
	_ = c.Close()
	if <-hello == nil {
		t.Error("it was served before its turn")
	}
	testkit.Eventually(t, "the kernel knows that it has left", func() bool {
		left := false
		s.conns.Each(func(x *conn) { left = hasLeft(x.raw, true) })
		return left
	})
	s.turns.done()
	if got := <-seen.all; got != "TLS gone" {
		t.Errorf("it came to %q", got)
	}
}
