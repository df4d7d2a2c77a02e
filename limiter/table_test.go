package limiter

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestMillionClients: a million clients come once each, after a client that is deep in debt. The table keeps
// its size and the debt.
func TestMillionClients(t *testing.T) {
	p := one(Cap, Budget{CPUs: 0.2, Burst: 30 * second})
	p.Classes = append(p.Classes, ClassInfo{"slash24", Budget{CPUs: 0.5, Burst: 30 * second}},
		ClassInfo{"slash16", Budget{CPUs: 1, Burst: 30 * second}})
	now := time.Now()
	clients := 1_000_000
	if testing.Short() {
		clients = 200_000
	}
	before := testkit.Heap()
	l := New(now, p, 65536, nil)
	visit := func(id, net, wide string, cost time.Duration) {
		ticket := l.Arrive(now, Arrival{Client: host(id), Others: networks(net, wide), Guess: cost})
		l.Settle(now, ticket, cost)
		l.Leave(now, ticket)
	}
	visit("debtor", "net", "wide", 50*second)
	for i := range clients {
		now = now.Add(10 * time.Microsecond)
		visit(fmt.Sprintf("%d.%d.%d.%d", i>>24, i>>16&255, i>>8&255, i&255),
			fmt.Sprintf("%d.%d.%d.0/24", i>>24, i>>16&255, i>>8&255),
			fmt.Sprintf("%d.%d.0.0/16", i>>24, i>>16&255), 20*time.Millisecond)
	}
	if n := l.Keys(); n > 65536+64 {
		t.Errorf("%d keys, want at most 65536, the table's size", n)
	}
	if mb := float64(testkit.Heap()-before) / (1 << 20); mb > 16 {
		t.Errorf("the table takes %.1f MB, want at most 16", mb)
	} else {
		t.Logf("the table takes %.1f MB", mb)
	}
	row, ok := l.Find(now, host("debtor"))
	if want := 30 - 50 + 0.2*float64(clients)/1e5; !ok || row.Level > want+0.01 {
		t.Errorf("the debtor's level is %v (known: %v), want %v", row.Level, ok, want)
	}
	runtime.KeepAlive(l)
}

// TestRowOfAKeyInDebt checks a row's figures while a response is held because of a debt.
func TestRowOfAKeyInDebt(t *testing.T) {
	w := newWorld(one(Cooperative, Budget{CPUs: 1}))
	for range 3 {
		ticket := w.Arrive(w.now, Arrival{Client: host("a"), Guess: second})
		w.after(second, func() {
			w.after(w.Settle(w.now, ticket, second), func() { w.Leave(w.now, ticket) })
		})
	}
	w.run(1500 * time.Millisecond)
	r, _ := w.Find(w.now, host("a"))
	if r.Running != 0 || r.Waiting != 0 || r.Level != -1.5 || r.Last != 0.5 || r.Wait <= 0 || r.CPU <= 0 || r.Rate != r.CPU {
		t.Errorf("%+v", r)
	}
}
