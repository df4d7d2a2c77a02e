package admin

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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
				if got := post(t.Context(), a); got != 200 {
					t.Errorf("status %d", got)
				}
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
		o.ReloadTimeout = 5 * time.Second
		o.Reload = func() error { <-release; return nil }
		a := New(o)
		start := time.Now()
		for range 2 {
			if got := post(t.Context(), a); got != 503 {
				t.Errorf("status %d, want 503", got)
			}
		}
		if got := time.Since(start); got != 10*time.Second {
			t.Errorf("both took %v, want 10 s", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		post(ctx, a) // must return
		close(release)
		synctest.Wait()
		if got := post(t.Context(), a); got != 200 {
			t.Errorf("after its end: status %d, want 200", got)
		}
	})
}
