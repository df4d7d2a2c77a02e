package connlimit

import (
	"net/netip"
	"testing"
	"time"
)

// What each request costs.
func BenchmarkBusyIdle(b *testing.B) {
	c := New(start, 10).Enter(start, somewhere(1), false, nobody{})
	b.ReportAllocs()
	for b.Loop() {
		c.Busy()
		c.Idle(start)
	}
}

// The same on all CPUs, each with a connection of its own.
func BenchmarkBusyIdleParallel(b *testing.B) {
	t := New(start, 1000)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		c := t.Enter(start, somewhere(1), false, nobody{})
		for p.Next() {
			c.Busy()
			c.Idle(start)
		}
	})
}

// What each connection costs, beside many others.
func BenchmarkEnterLeave(b *testing.B) {
	for name, from := range map[string]func(int) netip.Addr{
		"one":  func(int) netip.Addr { return somewhere(1) },
		"many": somewhere,
	} {
		b.Run(name, func(b *testing.B) {
			t := New(start, 200_000)
			for i := range 100_000 {
				t.Enter(start, from(i), false, nobody{})
			}
			n := 100_000
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				n++
				t.Enter(start, from(n), false, nobody{}).Leave()
			}
		})
	}
}

// A flood against a table that is full: all of one address, all of different ones, and
// all with requests between.
func BenchmarkFull(b *testing.B) {
	one := func(int) netip.Addr { return somewhere(1) }
	for name, c := range map[string]struct {
		from func(int) netip.Addr
		busy bool
	}{"one": {one, false}, "many": {somewhere, false}, "one busy": {one, true}, "many busy": {somewhere, true}} {
		b.Run(name, func(b *testing.B) {
			const most = 100_000
			t := New(start, most)
			conns := make([]*Conn, most)
			now := start
			for i := range conns {
				now = now.Add(time.Microsecond)
				conns[i] = t.Enter(now, c.from(i), false, nobody{})
			}
			n := most
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				n++
				now = now.Add(time.Microsecond)
				e := t.Enter(now, c.from(n), false, nobody{})
				if !c.busy {
					continue
				}
				conns[n%most] = e
				for i := range 4 {
					if o := conns[(n*7919+i*104729)%most]; o != nil {
						o.Busy()
						o.Idle(now)
					}
				}
			}
		})
	}
}
