package proxy

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tempomat/proxy/telemetry"
)

// TestWaiting: who waits is told by group, and for how long; who is at the backend is not.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startVirtual(t, http.HandlerFunc(site), fairly)
		r.learn()
		begin := time.Now()
		var all sync.WaitGroup
		for i, agent := range []string{"", "", "", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"} {
			q := request(t, nil, "GET /heavy")
			if q.Header.Set("X-Forwarded-For", "198.51.100.1"); agent != "" {
				q.Header.Set("User-Agent", agent)
			}
			all.Go(func() { r.do(r.client, q) })
			if i == 0 {
				synctest.Wait() // it is at the backend
			}
		}
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		var want telemetry.Waiting
		want.Count[telemetry.Robot], want.Longest[telemetry.Robot] = 2, time.Since(begin)
		want.Count[telemetry.Stranger], want.Longest[telemetry.Stranger] = 1, time.Since(begin)
		if diff := cmp.Diff(want, r.handler.WaitingByGroup(time.Now())); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		all.Wait()
		if diff := cmp.Diff(telemetry.Waiting{}, r.handler.WaitingByGroup(time.Now())); diff != "" {
			t.Errorf("all were answered (-want +got):\n%s", diff)
		}
	})
}
