package proxy

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/proxy/telemetry"
)

// recorded keeps copies of what was recorded.
type recorded struct {
	mu      sync.Mutex
	entries []telemetry.Entry
}

func (r *recorded) Note(now time.Time, rec *telemetry.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e telemetry.Entry
	e.Set(now, rec, 1)
	r.entries = append(r.entries, e)
}

// TestInside has two requests come whose backend takes 3 s for each: one runs and one
// waits. The client of the first leaves after 2 s. What runs is told as it costs, and
// what was told is on its record.
func TestInside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(work3s), fairly)
		const agent = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0"
		for range 3 {
			r.do(r.client, request(t, nil, "GET /header?a=0", agent))
		}
		records := &recorded{}
		r.handler.records = records
		if w := r.handler.WaitingByGroup(time.Now()); w != (telemetry.Waiting{}) {
			t.Errorf("nobody waits, and it says %+v", w)
		}
		var all sync.WaitGroup
		all.Go(func() { leaves(t, r.client, request(t, nil, "GET /header?a=1", agent), 2100*time.Millisecond) })
		time.Sleep(time.Millisecond)
		all.Go(func() { r.do(newClient(r.front, false), request(t, nil, "GET /header?a=2", agent)) })
		time.Sleep(999 * time.Millisecond)
		synctest.Wait()
		w := r.handler.WaitingByGroup(time.Now())
		if w.Count != [telemetry.Groups]int{telemetry.Stranger: 1} || w.Longest[telemetry.Stranger] != 999*time.Millisecond {
			t.Errorf("one waits, and it says %+v", w)
		}
		var told, wasted time.Duration
		for i := range 2 {
			running := r.handler.SoFar(time.Now(), nil)
			if len(running) != 1 { // their fields are long
				t.Fatalf("after %d s: %d run", i+1, len(running))
			}
			if running[0].Target() != "/header?a=1" || running[0].Cost != time.Second || running[0].Shape != "/header?a" {
				t.Errorf("after %d s: %s, %s, %v", i+1, running[0].Target(), running[0].Shape, running[0].Cost)
			}
			told += running[0].Cost
			if again := r.handler.SoFar(time.Now(), nil); len(again) != 0 {
				t.Errorf("%d are told twice", len(again))
			}
			time.Sleep(time.Second - 200*time.Millisecond*time.Duration(i))
		}
		for _, e := range r.handler.SoFar(time.Now(), nil) { // its client has left
			if told += e.Cost; e.Orphan {
				wasted += e.Cost
			}
		}
		all.Wait()
		time.Sleep(time.Second)
		r.busy.Wait()
		records.mu.Lock()
		defer records.mu.Unlock()
		if len(records.entries) != 2 {
			t.Fatalf("%d are on record", len(records.entries))
		}
		if e := records.entries[0]; e.Cost != 3*time.Second || e.Told != told || told != 2800*time.Millisecond || !e.Orphan || e.ToldWasted != wasted || wasted != 800*time.Millisecond {
			t.Errorf("on record: cost %v, told %v of %v, orphan %v, wasted %v of %v", e.Cost, e.Told, told, e.Orphan, e.ToldWasted, wasted)
		}
		if e := records.entries[1]; e.Told != 0 || e.Delay < 1900*time.Millisecond {
			t.Errorf("on record: told %v, delayed %v", e.Told, e.Delay)
		}
	})
}

// TestWaitedIsAtTheGate: a client that sends its body for half a second, waits, and is
// refused has waited from when its body was there, in the queue and on record.
func TestWaitedIsAtTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(work3s), func(s *setup) {
			fairly(s)
			s.limits.MaxHold = 1500 * time.Millisecond
		})
		for range 3 {
			r.do(r.client, request(t, nil, "GET /header"))
		}
		records := &recorded{}
		r.handler.records = records
		var all sync.WaitGroup
		all.Go(func() { r.do(r.client, request(t, nil, "GET /header")) })
		time.Sleep(time.Millisecond)
		body, sends := io.Pipe()
		all.Go(func() { r.do(newClient(r.front, false), request(t, body, "POST /header")) })
		time.Sleep(500 * time.Millisecond)
		_ = sends.Close()
		there := time.Now()
		time.Sleep(time.Second)
		if rows, _ := r.handler.WhoWaits(time.Now(), 10, nil); len(rows) != 1 || !rows[0].Arrived.Equal(there) {
			t.Errorf("waits since %v: %+v", there, rows)
		}
		all.Wait()
		r.busy.Wait()
		records.mu.Lock()
		defer records.mu.Unlock()
		if len(records.entries) != 2 {
			t.Fatalf("%d are on record", len(records.entries))
		}
		if e := records.entries[0]; e.Outcome != telemetry.Refused || e.Waited != 1500*time.Millisecond || e.Took != 2*time.Second {
			t.Errorf("%v, waited %v of %v", e.Outcome, e.Waited, e.Took)
		}
	})
}
