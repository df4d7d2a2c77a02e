//go:build cgo

package smockron_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/limiter/smockron"
	"tempomat/limiter/smockron/master"
)

// BenchmarkRequest is a request's way through the limiter with four classes: alone,
// with a master that hears of all, and with one that is away, where the queue is
// soon full.
func BenchmarkRequest(b *testing.B) {
	classes := []string{"slash32", "slash24", "slash16", "userAgent"}
	policy := limiter.Policy{Mode: limiter.Cap, Memory: time.Hour}
	for _, c := range classes {
		policy.Classes = append(policy.Classes, limiter.ClassInfo{Name: c, Budget: limiter.Budget{CPUs: 1000, Burst: time.Hour}})
	}
	request := func(b *testing.B, l *limiter.Limiter) {
		var each atomic.Int64
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			var keys []limiter.Key
			for _, c := range classes {
				keys = append(keys, limiter.Key{Class: c, ID: fmt.Sprint("client-", each.Add(1))})
			}
			for pb.Next() {
				now := time.Now()
				t := l.Arrive(now, limiter.Arrival{Client: keys[0], Others: keys[1:], Guess: time.Microsecond, Sure: true})
				l.Settle(now, t, time.Microsecond)
				l.Leave(now, t)
			}
		})
	}
	gatekeeper := func(b *testing.B, a smockron.Addresses) (*smockron.Gatekeeper, *limiter.Limiter) {
		var routes []smockron.Route
		for _, c := range classes {
			routes = append(routes, smockron.Route{Domain: "site." + c, Class: c, Master: a})
		}
		g := smockron.NewGatekeeper(smockron.GatekeeperOptions{Routes: routes, Now: time.Now})
		l := limiter.New(time.Now(), policy, 1<<16, g)
		runGatekeeper(b, g, l)
		return g, l
	}
	b.Run("alone", func(b *testing.B) { request(b, limiter.New(time.Now(), policy, 1<<16, nil)) })
	b.Run("master", func(b *testing.B) {
		a := freeAddresses(b)
		var domains []master.Domain
		for _, c := range classes {
			domains = append(domains, master.Domain{Name: "site." + c, Rules: []master.Rule{{Kind: master.Credit, CPUs: 1000, Burst: time.Hour}}})
		}
		serve(b, master.New(master.Settings{Domains: domains}), master.ServeOptions{Addresses: a, Now: time.Now})
		g, l := gatekeeper(b, a)
		testkit.Eventually(b, "there is a master", func() bool { return g.State()[0].Synced })
		b.ResetTimer()
		request(b, l)
	})
	b.Run("away", func(b *testing.B) {
		_, l := gatekeeper(b, freeAddresses(b))
		request(b, l)
	})
}
