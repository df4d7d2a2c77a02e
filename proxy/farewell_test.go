package proxy

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestFarewells: each open connection is told once, also one that comes late, and
// waited for, but not for ever.
func TestFarewells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f farewells
		if err := f.say(t.Context()); err != nil {
			t.Errorf("of nobody: %v", err)
		}
		f = farewells{}
		var told atomic.Int64
		tell := func() { told.Add(1) }
		f.add(tell)() // it has ended before
		ends, endsToo, late := f.add(tell), f.add(nil), make(chan func(), 1)
		go func() {
			time.Sleep(time.Second)
			late <- f.add(tell)
			time.Sleep(time.Second)
			ends()
			endsToo()
		}()
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := f.say(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one is open: %v", err)
		}
		if n := told.Load(); n != 2 {
			t.Errorf("%d were told, want 2", n)
		}
		from := time.Now()
		time.AfterFunc(time.Second, func() { (<-late)() })
		if err := f.say(t.Context()); err != nil || time.Since(from) != time.Second {
			t.Errorf("after %s: %v", time.Since(from), err)
		}
		if n := told.Load(); n != 2 {
			t.Errorf("%d were told, want no more than before", n)
		}
	})
}
