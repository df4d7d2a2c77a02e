package proxy

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestStreamsAreTold: as soon as an answer turns out an event stream, or the
// connection is upgraded, the gate knows that it only holds its worker; and it
// does until it ends, however long that takes.
func TestStreamsAreTold(t *testing.T) {
	for _, upgraded := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := startVirtual(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if upgraded {
					shout(w, q)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				for http.NewResponseController(w).Flush() == nil && q.Context().Err() == nil {
					time.Sleep(500 * time.Millisecond)
					_, _ = io.WriteString(w, "data: x\n\n")
				}
			}), fairly)
			var end func()
			if upgraded {
				c, _ := converse(t, r)
				end = func() { _ = c.Close() }
			} else {
				res, err := r.client.Do(request(t, nil, "GET /"))
				if err != nil {
					t.Fatal(err)
				}
				end = func() { _ = res.Body.Close() }
			}
			for _, later := range []time.Duration{0, 10 * time.Second, 40 * time.Second} {
				time.Sleep(later)
				synctest.Wait()
				if g := r.limiter.GateState(); g.Holding != 1 || g.LongBusy != 1 || g.Busy != 1 {
					t.Errorf("upgraded %t, %s later: the gate counts %+v, want one that holds its worker", upgraded, later, g)
				}
			}
			end()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if g := r.limiter.GateState(); g.Busy != 0 {
				t.Errorf("upgraded %t: it is over, the gate counts %+v", upgraded, g)
			}
		})
	}
}
