package sim

import (
	"testing"

	"tempomat/limiter"
)

// TestHoldsWorker checks how long one request holds a worker, in seconds, if its client stays and if it
// disconnects after 10 s. The request uses almost no CPU.
func TestHoldsWorker(t *testing.T) {
	slow := func(p Page) Page { p.CPU, p.Exact = 1e-6, true; return p }
	for _, c := range []struct {
		name          string
		page          Page
		plain         bool
		stays, leaves float64
	}{
		{"page", slow(Page{Path: "/a"}), true, 0, 0},
		{"sleep", slow(Page{Path: "/a", Sleep: 30}), false, 30, 30}, // the backend doesn't notice the disconnection
		{"stream", slow(Page{Path: "/a", Stream: 30}), false, 30, 11},
		{"upload", slow(Page{Path: "/a", Upload: 3000}), false, 0, 0},
		{"upload, plain", slow(Page{Path: "/a", Upload: 3000}), true, 30, 10},
		{"chunks", slow(Page{Path: "/a", Upload: 3000, Chunked: true}), false, 29, 9}, // the proxy reads the first second ahead
		{"small answer", slow(Page{Path: "/a", Answer: socketBuffers}), true, 0, 0},
		{"answer", slow(Page{Path: "/a", Answer: socketBuffers + 3000}), false, 0, 0},
		{"answer, plain", slow(Page{Path: "/a", Answer: socketBuffers + 3000}), true, 30, 10},
	} {
		for _, leaves := range []bool{false, true} {
			s := besides(c.name, nil)
			s.Plain = c.plain
			w := newWorld(t, 1, s, limiter.Fair)
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
				t.Errorf("%s, disconnects %v: the request holds the worker for %.2f s, want %.0f s", c.name, leaves, held, want)
			}
		}
	}
}

// TestAnyWorkers uses an event-driven backend, in which a waiting request holds no worker.
func TestAnyWorkers(t *testing.T) {
	s := besides("any", nil)
	s.Workers = anyWorkers
	w := newWorld(t, 1, s, limiter.Observe)
	w.Run(holders(addresses{1000, strewn}, 1, sleeper(), 0), 0, Attack+50)
	if w.backend.holding != 1000 || len(w.backend.queue) != 0 {
		t.Errorf("%d workers are held and %d requests wait, want 1000 and none", w.backend.holding, len(w.backend.queue))
	}
}
