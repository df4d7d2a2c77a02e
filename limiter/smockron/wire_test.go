//go:build cgo

package smockron_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"net"
	"testing"
	"time"

	zmq "github.com/pebbe/zmq4"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/limiter/smockron"
)

// peer is one end of a connection that implements ZMTP 3.1 byte by byte, without any library.
type peer struct {
	t testing.TB
	net.Conn
}

// accept accepts the next connection, and completes the handshake as a socket of the given type. The connection
// ends with the test.
func accept(t *testing.T, l net.Listener, socketType string) *peer {
	t.Helper()
	c, err := l.Accept()
	testkit.Must(t, err)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	p := &peer{t, c}
	greeting := make([]byte, 64)
	greeting[0], greeting[9] = 0xff, 0x7f
	greeting[10], greeting[11] = 3, 1
	copy(greeting[12:], "NULL")
	p.Write(greeting)
	p.read(64)
	ready := "\x05READY\x0bSocket-Type\x00\x00\x00" + string(rune(len(socketType))) + socketType
	p.Write(append([]byte{4, byte(len(ready))}, ready...))
	if got := p.frame(); got[0]&4 == 0 {
		t.Fatalf("no command: %x", got)
	}
	return p
}

func (p *peer) read(n int) []byte {
	p.t.Helper()
	b := make([]byte, n)
	_, err := io.ReadFull(p, b)
	testkit.Must(p.t, err)
	return b
}

// frame returns the next frame exactly as it is sent, including its header.
func (p *peer) frame() []byte {
	p.t.Helper()
	head := p.read(2)
	return append(head, p.read(int(head[1]))...)
}

// TestOnTheWire compares a gatekeeper's bytes with those recorded from the originals, down to ZMTP.
func TestOnTheWire(t *testing.T) {
	accounting, control := testkit.Listen(t), testkit.Listen(t)
	g := smockron.NewGatekeeper(smockron.GatekeeperOptions{Now: time.Now, Routes: []smockron.Route{{
		Domain: "foo", Class: "foo", Requests: true,
		Master: smockron.Addresses{Accounting: "tcp://" + accounting.Addr().String(), Control: "tcp://" + control.Addr().String()},
	}}})
	runGatekeeper(t, g, limiter.New(time.Now(), limiter.Policy{}, 16, nil))

	master := accept(t, control, "PUB")
	testkit.Same(t, "040e09"+hex.EncodeToString([]byte("SUBSCRIBE"))+"666f6f00", hex.EncodeToString(master.frame()), "the gatekeeper subscribed with")
	sub := accept(t, accounting, "SUB")
	sub.Write([]byte("\x04\x0a\x09SUBSCRIBE"))
	// The master is present, so the gatekeeper asks for its orders.
	if got := append(sub.frame(), sub.frame()...); !bytes.Equal(got, []byte("\x01\x04foo\x00\x00\x06RESYNC")) {
		t.Errorf("the gatekeeper asked with %q", got)
	}
	master.Write([]byte("\x01\x04foo\x00\x00\x0aRESYNCDONE"))
	testkit.Eventually(t, "the gatekeeper is synchronised", func() bool { return g.State()[0].Synced })
	received := time.UnixMilli(1795210055000)
	g.Offer(limiter.Charge{
		Key: limiter.Key{Class: "foo", ID: "u1"}, Event: limiter.Accepted, At: time.Now(), Received: received, Until: received,
	})
	var got []byte
	for range 6 {
		got = append(got, sub.frame()...)
		if bytes.HasSuffix(got, []byte("RESYNC")) { // another RESYNC had already been sent
			got = nil
			for range 6 {
				got = append(got, sub.frame()...)
			}
			break
		}
	}
	testkit.Same(t, "0104666f6f00"+"01084143434550544544"+"01027531"+"010d31373935323130303535303030"+"0100"+"0000", hex.EncodeToString(got), "accounting")
}

func runGatekeeper(t testing.TB, g *smockron.Gatekeeper, in limiter.Sink) {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx, in) }()
	t.Cleanup(func() {
		end()
		testkit.Must(t, <-done)
	})
}

// TestPrefixDomain: a topic is a prefix that ends with a NUL. Messages for another domain have no effect, even
// if the master sends them with this gatekeeper's topic.
func TestPrefixDomain(t *testing.T) {
	control := freeAddresses(t)
	g := smockron.NewGatekeeper(smockron.GatekeeperOptions{Now: time.Now, Routes: []smockron.Route{{
		Domain: "foo", Class: "foo", Requests: true, Master: control,
	}}})
	l := limiter.New(time.Now(), limiter.Policy{Classes: []limiter.ClassInfo{{Name: "foo", Budget: limiter.Budget{External: true}}}}, 16, nil)
	pub := socket(t, zmq.PUB, func(s *zmq.Socket) error { return s.Bind(control.Control) })
	runGatekeeper(t, g, l)
	later := []byte("99999999999999")
	owes := func(id string) bool {
		r, _ := l.Find(time.Now(), limiter.Key{Class: "foo", ID: id})
		return r.Level < 0
	}
	testkit.Eventually(t, "valid orders take effect, and invalid ones are counted", func() bool {
		pub.SendMessage("foobar\x00", "DELAY_UNTIL", "other", later)
		pub.SendMessage("foo\x00bar", "DELAY_UNTIL", "inner", later)
		pub.SendMessage("foo\x00", "DELAY_UNTIL", "short")
		pub.SendMessage("foo\x00", "DELAY_UNTIL", "point", "99999999999999.75")
		pub.SendMessage("foo\x00", "DELAY_UNTIL", "empty", "")
		pub.SendMessage("foo\x00", "delay_until", "lower", later)
		pub.SendMessage("foo\x00", "DELAY_UNTIL", "past", "1000")
		pub.SendMessage("foo\x00", "DELAY_UNTIL", "more", later, "and", "more")
		pub.SendMessage("foo\x00", "DELAY_UNTIL", "mine", later)
		s := g.State()[0]
		return owes("mine") && owes("more") && s.Unsound >= 5 && s.Past >= 1
	})
	for _, id := range []string{"other", "inner", "short", "point", "empty", "lower", "past"} {
		if owes(id) {
			t.Errorf("%s has to wait", id)
		}
	}
}
