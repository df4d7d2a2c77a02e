package proxy

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"testing"
	"time"

	"tempomat/classify"
	"tempomat/limiter"
)

// BenchmarkDecide is what a request costs that nobody delays, but for the
// forwarding: classify, arrive, settle and leave, with the four built-in
// classes and 100,000 live keys. Clients come as they do in life, a few of them
// often and most of them seldom; or all alike, which is the worst for the
// processor's cache.
func BenchmarkDecide(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(rng, 1.2, 8, clients-1)
	b.Run("zipf", func(b *testing.B) { decide(b, func() int { return int(zipf.Uint64()) }) })
	b.Run("uniform", func(b *testing.B) { decide(b, func() int { return rng.IntN(clients) }) })
}

const clients = 64_000 // in 32,000 networks /24 and 4,000 /16

func decide(b *testing.B, next func() int) {
	classifier, err := classify.New(classify.Config{Classes: []classify.Class{
		{Name: "slash32", By: classify.Slash32},
		{Name: "slash24", By: classify.Slash24},
		{Name: "slash16", By: classify.Slash16},
		{Name: "userAgent", By: classify.UserAgent},
	}})
	if err != nil {
		b.Fatal(err)
	}
	p := limiter.Policy{Mode: limiter.Cooperative, MaxHold: 30 * time.Second, MaxHeld: 512}
	for _, name := range []string{"slash32", "slash24", "slash16", "userAgent"} {
		p.Classes = append(p.Classes, limiter.ClassInfo{Name: name, Budget: limiter.Budget{CPUs: 1, Burst: time.Hour}})
	}
	now := time.Now()
	l := limiter.New(now, p, 1<<17, nil)
	r := httptest.NewRequest("GET", "/blog/2026/11/a-title?page=3", nil)
	r.Header.Set("User-Agent", "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36")
	addresses := make([]string, clients)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("%d.%d.%d.%d:4711", 20+i>>12, i>>4&255, i>>1&7, i&1)
	}
	var who classify.Result
	request := func(i int) {
		now = now.Add(10 * time.Microsecond)
		r.RemoteAddr = addresses[i]
		classifier.Classify(r, &who)
		client, within, others := who.Identity()
		t := l.Arrive(now, limiter.Arrival{Client: client, Within: within, Others: others, Guess: time.Millisecond})
		l.Settle(now, t, time.Millisecond)
		l.Leave(now, t)
	}
	for i := range addresses {
		request(i)
	}
	if n := l.Keys(); n < 100_000 {
		b.Fatalf("%d live keys, want 100,000", n)
	}
	order := make([]int, 1<<16)
	for i := range order {
		order[i] = next()
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		request(order[i%len(order)])
	}
}
