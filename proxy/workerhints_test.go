package proxy

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

// learner notes what it is told.
type learner struct {
	mu      sync.Mutex
	queued  []int
	least   []int
	workers []int
}

func (l *learner) Backlog(_ time.Time, queued, atLeast int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queued, l.least = append(l.queued, queued), append(l.least, atLeast)
}

func (l *learner) Found(_ time.Time, workers int, _ string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers = append(l.workers, workers)
}

func (l *learner) Wants(time.Time) int { return 0 }

func (l *learner) Tried(time.Time, int, int) {}

// take returns what it was told since the last take.
func (l *learner) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := fmt.Sprint(l.queued, l.least, l.workers)
	l.queued, l.least, l.workers = nil, nil, nil
	return told
}

// TestWorkerHints has connections wait at a web server and at the php-fpm
// behind it.
func TestWorkerHints(t *testing.T) {
	h, err := OpenWorkerHints()
	if err != nil {
		skipElsewhere(t, err)
	}
	var at []*net.TCPAddr
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		at = append(at, l.Addr().(*net.TCPAddr))
	}
	web, fpm, other := at[0], at[1], at[2]
	for n, a := range at {
		dial(t, "tcp", a.String(), []int{1, 2, 4}[n])
		waitQueue(t, h.queue, listener{port: uint16(a.Port)}, []int{1, 2, 4}[n])
	}
	files := tree(map[string]string{
		"proc/7/cmdline": "php-fpm: master process (/f.conf)",
		"f.conf":         fmt.Sprintf("[a]\npm.max_children = 5\nlisten = %s\n[b]\npm.max_children = 3\nlisten = none\n", fpm),
	})
	h.root = files
	urlOf := func(a *net.TCPAddr) *url.URL { return &url.URL{Scheme: "http", Host: a.String()} }
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var l learner
		go h.Run(ctx, &l, &l)
		next := func(d time.Duration, want string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := l.take(); got != want {
				t.Errorf("told %s, want %s", got, want)
			}
		}
		next(queueEvery/2, "[] [] []") // no backend yet
		h.Watch(urlOf(web))
		next(2*queueEvery, "[1 1] [0 0] []")
		time.Sleep(poolsEvery - 3*queueEvery) // until just before php-fpm is looked for
		synctest.Wait()
		l.take()
		h.Watch(nil)
		next(poolsEvery, "[] [] []")
		h.Watch(urlOf(web))
		time.Sleep(poolsEvery / 2)
		synctest.Wait()
		h.mu.Lock()
		if len(h.inner) != 1 {
			t.Errorf("%d pools listen", len(h.inner))
		}
		h.mu.Unlock()
		l.mu.Lock()
		if last := len(l.queued) - 1; fmt.Sprint(l.workers) != "[8]" || l.queued[last] != 3 || l.least[last] != 5 {
			t.Errorf("found %v workers; queues of %v, before %v at least", l.workers, l.queued, l.least)
		}
		l.mu.Unlock()
		l.take()
		h.Watch(urlOf(fpm)) // it is the backend itself: counted once
		next(queueEvery, "[2] [5] []")
		h.Watch(urlOf(other))
		next(queueEvery, "[6] [5] []")
		h.Watch(&url.URL{Scheme: "http", Host: "php.example"})
		next(queueEvery, "[] [] []")
		cancel()
		synctest.Wait()
		if _, _, ok := h.Sample(); ok {
			t.Error("the queues are left open")
		}
	})
	h.Watch(urlOf(web))
	if n := workersOf(h.pools()); n != 8 {
		t.Errorf("%d children", n)
	}
	h.root = fstest.MapFS{}
	if n := workersOf(h.pools()); n != 0 {
		t.Errorf("%d children where there is no php-fpm", n)
	}
}
