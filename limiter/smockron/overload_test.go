//go:build cgo

package smockron_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	zmq "github.com/pebbe/zmq4"

	"tempomat/limiter/limitertest"
	"tempomat/limiter/smockron"
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
	m := smockron.NewMaster(smockron.Settings{Domains: []smockron.Domain{
		{Name: "foo", Rules: []smockron.Rule{{Interval: time.Second, Burst: 10 * time.Second}}},
	}})
	slow := make(chan struct{})
	serve(t, m, smockron.ServeOptions{Addresses: a, Now: time.Now, Queue: capacity, Seen: func(*smockron.Accounting) { <-slow }})
	f := newFlood(t, a.Accounting, 100, 1)
	eventually(t, "connected", func() bool { f.send(1); return waits(slow) })
	control := subscriber(t, a.Control)
	eventually(t, "overload", func() bool {
		f.send(capacity)
		waits(slow)
		return f.next > 20*capacity
	})
	close(slow)
	eventually(t, "drops are counted", func() bool { return m.State().Counts.Overload > capacity })
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

// BenchmarkThroughput is how much accounting a master takes from the wire, beside
// what ZeroMQ alone hands over. Run it with -benchtime=300000x.
func BenchmarkThroughput(b *testing.B) {
	redis := ""
	if os.Getenv("TEMPOMAT_BENCH_REDIS") != "" {
		redis = limitertest.StartRedis(b).Address
	}
	run := func(name string, rules []smockron.Rule, redis string) {
		b.Run(name, func(b *testing.B) {
			a := smockron.Addresses{Accounting: "tcp://" + limitertest.FreeAddress(b), Control: "tcp://" + limitertest.FreeAddress(b)}
			m := smockron.NewMaster(smockron.Settings{Domains: []smockron.Domain{{Name: "foo", Rules: rules}}})
			o := smockron.ServeOptions{Addresses: a, Now: time.Now, Queue: 1 << 17}
			if redis != "" {
				s, err := smockron.OpenRedisStore("redis://" + redis)
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				o.Store = s
			}
			serve(b, m, o)
			f := newFlood(b, a.Accounting, 100_000, 1)
			taken := func() int {
				s := m.State()
				return int(s.Domains[0].Counts.Accepted + s.Counts.Overload)
			}
			for taken() == 0 {
				f.send(1)
				time.Sleep(time.Millisecond)
			}
			before := taken()
			b.ResetTimer()
			for done := 0; done < b.N; {
				n := min(2000, b.N-done)
				f.send(n)
				done += n
				for taken()-before < done-20_000 { // what is on its way is bounded, so that nothing is lost
					time.Sleep(100 * time.Microsecond)
				}
			}
			for end := time.Now().Add(3 * time.Second); taken()-before < b.N && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			b.ReportMetric(float64(taken()-before)/b.Elapsed().Seconds(), "messages/s")
		})
	}
	run("none", nil, "")
	run("bucket", []smockron.Rule{{Interval: time.Second, Burst: 10 * time.Second}}, "")
	run("history", []smockron.Rule{{Kind: smockron.History, Interval: time.Second, Burst: 10 * time.Second}}, "")
	run("credit", []smockron.Rule{{Kind: smockron.Credit, CPUs: 0.1, Burst: 30 * time.Second}}, "")
	if redis != "" {
		run("bucket/redis", []smockron.Rule{{Interval: time.Second, Burst: 10 * time.Second}}, redis)
		run("history/redis", []smockron.Rule{{Kind: smockron.History, Interval: time.Second, Burst: 10 * time.Second}}, redis)
	}
	b.Run("zeromq alone", func(b *testing.B) {
		address := "tcp://" + limitertest.FreeAddress(b)
		s, err := zmq.NewSocket(zmq.SUB)
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		s.SetRcvhwm(1 << 20)
		s.SetSubscribe("")
		if err := s.Bind(address); err != nil {
			b.Fatal(err)
		}
		f := newFlood(b, address, 100_000, 1)
		s.SetRcvtimeo(time.Millisecond)
		for {
			f.send(1)
			if _, err := s.RecvMessageBytes(0); err == nil {
				break
			}
		}
		s.SetRcvtimeo(3 * time.Second)
		b.ResetTimer()
		sent := make(chan int, 10)
		go func() {
			defer close(sent)
			for done := 0; done < b.N; done += 2000 {
				f.send(min(2000, b.N-done))
				sent <- 1 // at most 20,000 on their way
			}
		}()
		for i := range b.N {
			if _, err := s.RecvMessageBytes(0); err != nil {
				b.Fatal(i, err)
			}
			if i%2000 == 1999 {
				<-sent
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	})
}
