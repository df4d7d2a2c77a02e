package sim

import (
	"testing"

	"tempomat/limiter"
)

// TestHoldsWorker looks for how long one request holds a worker, in seconds, when
// its client stays and when it hangs up after 10 s. Its CPU is next to nothing.
func TestHoldsWorker(t *testing.T) {
	slow := func(p Page) Page { p.CPU, p.Exact = 1e-6, true; return p }
	for _, c := range []struct {
		name          string
		page          Page
		plain         bool
		stays, leaves float64
	}{
		{"page", slow(Page{Path: "/a"}), true, 0, 0},
		{"sleep", slow(Page{Path: "/a", Sleep: 30}), false, 30, 30}, // the backend does not notice
		{"stream", slow(Page{Path: "/a", Stream: 30}), false, 30, 11},
		{"upload", slow(Page{Path: "/a", Upload: 3000}), false, 0, 0},
		{"upload, plain", slow(Page{Path: "/a", Upload: 3000}), true, 30, 10},
		{"chunks", slow(Page{Path: "/a", Upload: 3000, Chunked: true}), false, 29, 9}, // a second of it is read ahead,
		{"small answer", slow(Page{Path: "/a", Answer: socketBuffers}), true, 0, 0},
		{"answer", slow(Page{Path: "/a", Answer: socketBuffers + 3000}), false, 0, 0},
		{"answer, plain", slow(Page{Path: "/a", Answer: socketBuffers + 3000}), true, 30, 10},
	} {
		for _, leaves := range []bool{false, true} {
			s := besides(c.name, nil)
			s.Plain = c.plain
			w, err := NewWorld(1, s, limiter.Fair)
			if err != nil {
				t.Fatal(err)
			}
			client := holders(addresses{1, 0}, 1, c.page, 100)[0]
			client.From, client.Rate, client.To = 0, 1e-9, 1e-9
			want := c.stays
			if leaves {
				client.HangsUp, want = 10, c.leaves
			}
			held := 0.0
			w.every(0.01, func() {
				if w.backend.busy() > 0 {
					held += 0.01
				}
			})
			w.Run([]*Client{client}, 0, 60)
			if held < want-0.1 || held > want+0.1 {
				t.Errorf("%s, leaves %v: the worker is held for %.2f s, want %.0f", c.name, leaves, held, want)
			}
		}
	}
}

// TestAnyWorkers has an event-driven backend, which needs no worker to wait.
func TestAnyWorkers(t *testing.T) {
	s := besides("any", nil)
	s.Workers = anyWorkers
	w, err := NewWorld(1, s, limiter.Observe)
	if err != nil {
		t.Fatal(err)
	}
	w.Run(holders(addresses{1000, strewn}, 1, sleeper(), 0), 0, Attack+50)
	if w.backend.holding != 1000 || len(w.backend.queue) != 0 {
		t.Errorf("%d are held and %d wait, want all 1000 and none", w.backend.holding, len(w.backend.queue))
	}
}
