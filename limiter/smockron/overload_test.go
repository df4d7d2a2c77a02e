//go:build cgo

package smockron_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	zmq "github.com/pebbe/zmq4"

	"tempomat/internal/testkit"
	"tempomat/limiter/smockron"
	"tempomat/limiter/smockron/master"
)

// flood sends accounting of many identifiers as fast as ZeroMQ takes it.
type flood struct {
	sockets []*zmq.Socket
	frames  [][2]string // identifier, and what it cost
	next    int
}

func newFlood(t testing.TB, address string, identifiers, gatekeepers int) *flood {
	t.Helper()
	f := &flood{}
	for range gatekeepers {
		s, err := zmq.NewSocket(zmq.PUB)
		if err == nil {
			err = s.SetSndhwm(100_000)
		}
		if err == nil {
			err = s.Connect(address)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		f.sockets = append(f.sockets, s)
	}
	for i := range identifiers {
		f.frames = append(f.frames, [2]string{fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), "cost_ms=12"})
	}
	return f
}

func (f *flood) send(n int) {
	ts := strconv.FormatInt(time.Now().UnixMilli(), 10)
	for range n {
		x := f.frames[f.next%len(f.frames)]
		f.sockets[f.next%len(f.sockets)].SendMessage("foo\x00", "ACCEPTED", x[0], ts, "", x[1])
		f.next++
	}
}

// TestOverload: past what the master can take it drops the oldest, counts them,
// sends nothing that is past, and takes no more memory.
func TestOverload(t *testing.T) {
	a := freeAddresses(t)
	const capacity = 1000
	m := master.New(master.Settings{Domains: []master.Domain{
		{Name: "foo", Rules: []master.Rule{{Interval: time.Second, Burst: 10 * time.Second}}},
	}})
	slow := make(chan struct{})
	serve(t, m, master.ServeOptions{Addresses: a, Now: time.Now, Queue: capacity, Seen: func(*smockron.Accounting) { <-slow }})
	f := newFlood(t, a.Accounting, 100, 1)
	testkit.Eventually(t, "connected", func() bool { f.send(1); return waits(slow) })
	control := subscriber(t, a.Control)
	testkit.Eventually(t, "overload", func() bool {
		f.send(capacity)
		waits(slow)
		return f.next > 20*capacity
	})
	close(slow)
	testkit.Eventually(t, "drops are counted", func() bool { return m.State().Counts.Overload > capacity })
	orders := 0
	for {
		frames, err := control.RecvMessage(0)
		if err != nil {
			break
		}
		if until, err := strconv.ParseInt(frames[3], 10, 64); err != nil || until < time.Now().Add(-time.Second).UnixMilli() {
			t.Fatalf("an order that is past: %q", frames)
		}
		orders++
	}
	s := m.State()
	t.Logf("%d sent, %d dropped, %d taken, %d orders", f.next, s.Counts.Overload, s.Domains[0].Counts.Accepted, orders)
	if taken := s.Domains[0].Counts.Accepted; taken+s.Counts.Overload > uint64(f.next) || taken == 0 {
		t.Errorf("%d taken and %d dropped of %d", taken, s.Counts.Overload, f.next)
	}
}

// waits tells whether somebody waits to send to the channel's reader: here, the
// master for us.
func waits(c chan struct{}) bool {
	select {
	case c <- struct{}{}:
		return true
	default:
		return false
	}
}
