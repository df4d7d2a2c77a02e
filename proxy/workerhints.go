package proxy

import (
	"context"
	"io/fs"
	"net/url"
	"os"
	"sync"
	"time"
)

const (
	// queueEvery is how often the queues are measured: a reading takes some 30 µs,
	// and a queue shall be known before many more requests are sent into it.
	queueEvery = 100 * time.Millisecond
	// poolsEvery is how often php-fpm is looked for: its number of workers changes
	// when an administrator changes it.
	poolsEvery = 30 * time.Second
)

// WorkerLearner is told what can be seen of a backend's workers.
type WorkerLearner interface {
	// Backlog: so many connections wait for a worker. There are at least so many, busy
	// or about to be started: those of the php-fpm that they wait for; 0: nobody knows.
	Backlog(now time.Time, queued, atLeast int)
	// Found: it seems to have so many workers, and what says so. That may be wrong:
	// a machine may run php-fpm for another site than this backend.
	Found(now time.Time, workers int, source string)
}

// WorkerHints looks at a backend on this machine from outside: how many
// connections wait in front of its workers, and how many workers php-fpm was
// configured to have. All methods may be called concurrently.
type WorkerHints struct {
	root fs.FS

	mu       sync.Mutex // guards the following
	queue    *listenQueue
	backend  *url.URL
	listener listener
	known    bool           // a backend is, and listener is where it listens
	inner    []poolListener // behind a web server; by the last look
}

// poolListener is where a pool of php-fpm listens, and how many workers it may have.
type poolListener struct {
	listener
	children int
}

// OpenWorkerHints opens what is needed. Where the kernel does not tell about
// sockets, err says why, and the hints are php-fpm's number of workers only.
func OpenWorkerHints() (*WorkerHints, error) {
	h := &WorkerHints{root: os.DirFS("/")}
	diag, err := openDiag()
	if err == nil {
		h.queue = newListenQueue(diag)
	}
	return h, err
}

// Watch sets the backend: http, https or unix, on this machine. With nil, or one
// elsewhere, nothing is told.
func (h *WorkerHints) Watch(backend *url.URL) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.backend, h.listener, h.known = backend, listener{}, false
	if backend != nil {
		h.listener, h.known = listenerOf(backend)
	}
}

// Sample returns how many connections wait until the backend accepts them, or
// php-fpm behind it does, and how many workers those pools of it may have that any
// wait for. Not ok: nobody is seen to listen. 0 does not prove that
// a worker is free: servers that accept at once queue inside.
func (h *WorkerHints) Sample() (queued, atLeast int, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.known || h.queue == nil {
		return 0, 0, false
	}
	own, ok := h.queue.length(h.listener)
	queued = own
	for _, d := range h.inner {
		n := own
		if !d.sameAs(h.listener) {
			more, also := h.queue.length(d.listener)
			n, queued, ok = more, queued+more, ok || also
		}
		if n > 0 {
			atLeast += d.children
		}
	}
	return queued, atLeast, ok
}

// pools looks for php-fpm and notes where it listens.
func (h *WorkerHints) pools() []fpmPool {
	h.mu.Lock()
	known := h.known
	h.mu.Unlock()
	if !known {
		return nil
	}
	pools := findFPM(h.root) // without the lock: it reads files
	var inner []poolListener
	for _, p := range pools {
		if d, ok := listenerAt(p.listen); ok {
			inner = append(inner, poolListener{d, p.children})
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inner = inner
	return pools
}

// Run tells the learner, and tries for the trier, until the context ends, and closes what is open. It
// calls one method at a time.
func (h *WorkerHints) Run(ctx context.Context, learner WorkerLearner, trier WorkerTrier) {
	defer h.close()
	queues, pools := time.NewTicker(queueEvery), time.NewTicker(poolsEvery)
	defer queues.Stop()
	defer pools.Stop()
	h.tellFound(time.Now(), learner)
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-queues.C:
			if queued, atLeast, ok := h.Sample(); ok {
				learner.Backlog(now, queued, atLeast)
				h.try(ctx, trier)
			}
		case now := <-pools.C:
			h.tellFound(now, learner)
		}
	}
}

func (h *WorkerHints) tellFound(now time.Time, learner WorkerLearner) {
	if pools := h.pools(); len(pools) > 0 {
		learner.Found(now, workersOf(pools), tellPools(pools))
	}
}

func (h *WorkerHints) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.queue != nil {
		h.queue.diag.close()
		h.queue = nil
	}
}
