package connlimit

import (
	"io"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// working records whether a connection was closed while it served a request.
type working struct {
	request atomic.Bool
	closed  atomic.Int32
	cut     *atomic.Int64
}

func (w *working) Close() error {
	w.closed.Add(1)
	if w.request.Load() {
		w.cut.Add(1)
	}
	return nil
}

// TestAllAtOnce: many goroutines use a full table. No request is cut, no connection is closed twice, and the
// counts are right.
func TestAllAtOnce(t *testing.T) {
	const most, goroutines = 300, 16
	table := New(start, most)
	var clock, cut atomic.Int64
	now := func() time.Time { return start.Add(time.Duration(clock.Add(1))) }
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			held := make([]*Conn, 0, 40)
			shown := make([]*working, 0, 40)
			for range 5_000 {
				if len(held) < 40 {
					w := &working{cut: &cut}
					a := netip.AddrFrom4([4]byte{192, 0, byte(random.IntN(3)), byte(random.IntN(10))})
					if c := table.Enter(now(), a, random.IntN(50) == 0, w); c != nil {
						held, shown = append(held, c), append(shown, w)
					}
					continue
				}
				i := random.IntN(len(held))
				c, w := held[i], shown[i]
				open := c.Busy()
				if open && random.IntN(10) > 0 { // some connections stay busy
					w.request.Store(true)
					runtime.Gosched()
					w.request.Store(false)
					open = c.Idle(now())
				}
				if !open || random.IntN(10) == 0 {
					c.Leave()
					held[i], shown[i] = held[len(held)-1], shown[len(held)-1]
					held, shown = held[:len(held)-1], shown[:len(shown)-1]
					if w.closed.Load() > 1 {
						t.Error("closed twice")
					}
				}
				if random.IntN(1000) == 0 {
					table.Shed()
					table.Stats(3)
				}
			}
			for _, c := range held {
				c.Leave()
			}
		})
	}
	all.Wait()
	verify(t, table)
	s := table.Stats(3)
	if s.Open != 0 || s.Addresses != 0 || cut.Load() != 0 {
		t.Errorf("%+v, %d requests were cut", s, cut.Load())
	}
	if s.Shed == 0 {
		t.Error("the table was never full")
	}
}

// TestBusyAgainstShed: a connection whose request may begin is not closed before the request has ended, and the
// request of a closed connection may not begin.
func TestBusyAgainstShed(t *testing.T) {
	table := New(start, 10)
	var cut atomic.Int64
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				table.Shed()
			}
		}
	})
	for n := 0; n < 2_000 || table.Stats(0).Shed == 0; n++ { // Shed may not have run yet
		w := &working{cut: &cut}
		c := table.Enter(start, somewhere(n), false, w)
		for range 200 {
			was := w.closed.Load() > 0
			if !c.Busy() {
				break
			}
			w.request.Store(true)
			if was || w.closed.Load() > 0 {
				t.Fatal("a closed connection was told that it may go on")
			}
			w.request.Store(false)
			c.Idle(start)
		}
		c.Leave()
	}
	close(done)
	all.Wait()
	verify(t, table)
	if s := table.Stats(0); s.Shed == 0 || cut.Load() > 0 {
		t.Errorf("%+v, %d requests were cut", s, cut.Load())
	}
}

// nobody is a connection whose Close does nothing.
type nobody struct{}

func (nobody) Close() error { return nil }

// somewhere returns the nth of many addresses that share no network.
func somewhere(n int) netip.Addr {
	x := uint32(n) * 2654435761
	return netip.AddrFrom4([4]byte{byte(x >> 24), byte(x >> 16), byte(x >> 8), byte(x)})
}

func somewhere6(n int) netip.Addr {
	x := uint64(n) * 0x9e3779b97f4a7c15
	a := [16]byte{0x20, 0x01}
	for i := range 6 {
		a[2+i] = byte(x >> (8 * (7 - i)))
	}
	return netip.AddrFrom16(a)
}

func TestMemoryOfEachIsSmall(t *testing.T) {
	for name, c := range map[string]struct {
		n    int
		from func(int) netip.Addr
		most float64 // bytes
		left float64 // bytes for each closed connection: a Conn, and space in maps, which don't shrink
	}{
		"20,000 of one address":   {20_000, func(int) netip.Addr { return somewhere(1) }, 120, 96},
		"100,000 of each another": {100_000, somewhere, 360, 96 + 200},
		"the same of IPv6":        {100_000, somewhere6, 360, 96 + 200},
	} {
		t.Run(name, func(t *testing.T) {
			var closer io.Closer = nobody{}
			kept := make([]*Conn, c.n)
			table := New(start, c.n)
			before := testkit.Heap()
			for i := range kept {
				kept[i] = table.Enter(start, c.from(i), false, closer)
			}
			each := float64(testkit.Heap()-before) / float64(c.n)
			t.Logf("%.0f bytes", each)
			if each > c.most {
				t.Errorf("%.0f bytes for each connection", each)
			}
			for _, c := range kept[1:] {
				c.Leave()
			}
			if left := float64(testkit.Heap()-before) / float64(c.n); left > c.left+1 {
				t.Errorf("%.0f bytes are left of each that has left", left)
			}
			runtime.KeepAlive(kept)
		})
	}
}
