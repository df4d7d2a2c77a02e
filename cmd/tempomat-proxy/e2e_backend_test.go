package main

import (
	"fmt"
	"net/http"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/limiter"
)

// TestBackendDiesBusy: a backend ends under load and is back. Nothing at the gate
// stays taken, and nobody owes less than before.
func TestBackendDiesBusy(t *testing.T) {
	t.Parallel()
	backend := startApache(t)
	s := startProxy(t, backend.url, slowly)
	gate := func() (g limiter.GateState) {
		s.ask("/v1/gate", &g)
		return g
	}
	client := func(i int) string { return fmt.Sprintf("203.0.113.%d", 1+i%10) }
	var before [10]float64
	for i := range before {
		s.get(client(i), "/page.php?ms=20")
		row, _ := s.account("slash32", client(i))
		before[i] = row.Level
	}
	var answers []<-chan string
	for i := range 60 {
		answers = append(answers, s.later(from(client(i)), "/page.php?ms=300"))
	}
	testkit.Eventually(t, "some run, some wait", func() bool {
		g := gate()
		return g.Busy > 0 && g.Queued > 0
	})
	backend.kill()
	for _, a := range answers {
		if got := <-a; got != "200 OK" && got != "502 Bad Gateway" {
			t.Errorf("answered %s", got)
		}
	}
	testkit.Eventually(t, "all slots and queues are empty", func() bool {
		g := gate()
		return g.Busy+computing(g)+g.Probes+g.LongBusy+g.Queued == 0
	})
	for i := range before {
		if row, _ := s.account("slash32", client(i)); row.Level > before[i]+1e-3 || row.Running+row.Waiting != 0 {
			t.Errorf("%s had %.4f CPU-s, has %+v", client(i), before[i], row)
		}
	}
	_ = startApacheAt(t, backend.port)
	for i := range before {
		if a := s.get(client(i), "/page.php?ms=1"); a.StatusCode != http.StatusOK {
			t.Errorf("the backend is back: %s", a.Status)
		}
	}
}

// computing is how many requests compute, of all sizes.
func computing(g limiter.GateState) (n int) {
	for _, x := range g.Computing {
		n += x
	}
	return n
}
