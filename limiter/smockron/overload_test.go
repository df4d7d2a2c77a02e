//go:build cgo

package smockron_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	zmq "github.com/pebbe/zmq4"

	"tempomat/internal/testkit"
	"tempomat/limiter/smockron"
	"tempomat/limiter/smockron/master"
)

// flood sends accounting of many identifiers as fast as ZeroMQ accepts it.
type flood struct {
	*zmq.Socket
	next int
}

func (f *flood) send(n int) {
	ts := strconv.FormatInt(time.Now().UnixMilli(), 10)
	for range n {
		f.SendMessage("foo\x00", "ACCEPTED", fmt.Sprint("10.0.0.", f.next%100), ts, "", "cost_ms=12")
		f.next++
	}
}

// TestOverload: if the master gets more messages than it can handle, it drops and counts the oldest ones, sends
// no orders whose time has passed, and takes no more memory.
func TestOverload(t *testing.T) {
	a := freeAddresses(t)
	m := master.New(master.Settings{Domains: []master.Domain{
		{Name: "foo", Rules: []master.Rule{{Interval: time.Second, Burst: 10 * time.Second}}},
	}})
	slow := make(chan struct{})
	var listens atomic.Bool
	serve(t, m, master.ServeOptions{Addresses: a, Ready: func() { listens.Store(true) }, Now: func() time.Time {
		if listens.Load() {
			<-slow // the master reads the clock before it handles a message
		}
		return time.Now()
	}})
	f := &flood{Socket: socket(t, zmq.PUB, func(s *zmq.Socket) error { return errors.Join(s.SetSndhwm(100_000), s.Connect(a.Accounting)) })}
	testkit.Eventually(t, "connected", func() bool { f.send(1); return waits(slow) })
	control := socket(t, zmq.SUB, func(s *zmq.Socket) error {
		return errors.Join(s.SetSubscribe(""), s.SetRcvtimeo(time.Second), s.Connect(a.Control))
	})
	testkit.Eventually(t, "overload", func() bool {
		f.send(1000)
		waits(slow)
		return m.State().Counts.Overload > smockron.MostWaiting
	})
	close(slow)
	orders := 0
	for {
		frames, err := control.RecvMessage(0)
		if err != nil {
			break
		}
		if until, err := strconv.ParseInt(frames[3], 10, 64); err != nil || until < time.Now().Add(-time.Second).UnixMilli() {
			t.Fatalf("an order whose time has passed: %q", frames)
		}
		orders++
	}
	s := m.State()
	t.Logf("%d sent, %d dropped, %d accepted, %d orders", f.next, s.Counts.Overload, s.Domains[0].Counts.Accepted, orders)
	if taken := s.Domains[0].Counts.Accepted; taken+s.Counts.Overload > uint64(f.next) || taken == 0 {
		t.Errorf("%d accepted and %d dropped of %d", taken, s.Counts.Overload, f.next)
	}
}

// waits reports whether the master waits to receive from the channel, and lets it continue.
func waits(c chan struct{}) bool {
	select {
	case c <- struct{}{}:
		return true
	default:
		return false
	}
}
