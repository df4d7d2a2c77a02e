package admin

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/internal/testkit"
)

// post sends one reload and returns the status of the answer.
func post(ctx context.Context, a *Server) int {
	rec := httptest.NewRecorder()
	a.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(ctx, "POST", "/v1/reload", nil))
	return rec.Code
}

func TestAdminReloadsOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running, most, runs := 0, 0, 0
		var mu sync.Mutex
		o := options()
		o.Reload = func() error {
			mu.Lock()
			running++
			runs++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		}
		a := New(o)
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() {
				testkit.Same(t, 200, post(t.Context(), a), "status")
			})
		}
		group.Wait()
		if most != 1 || runs != 10 {
			t.Errorf("%d reloads, %d at a time; want 10, 1", runs, most)
		}
	})
}

func TestAdminReloadThatHangsHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		o := options()
		o.Reload = func() error { <-release; return nil }
		a := New(o)
		start := time.Now()
		for range 2 {
			testkit.Same(t, 503, post(t.Context(), a), "status")
		}
		testkit.Same(t, 2*reloadTimeout, time.Since(start), "both took")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		post(ctx, a) // must return
		close(release)
		synctest.Wait()
		testkit.Same(t, 200, post(t.Context(), a), "after its end: status")
	})
}
