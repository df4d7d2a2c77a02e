package front

import (
	"context"
	"sync"
	"sync/atomic"
)

// presence is the context of a connection's requests: it ends when the client has left.
// It may be used concurrently.
type presence struct {
	context.Context // of the server

	left atomic.Bool

	mu   sync.Mutex    // guards the following
	done chan struct{} // nil: nobody waits for it
}

// leave says that the client has left.
func (p *presence) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.left.Swap(true) && p.done != nil {
		close(p.done)
	}
}

// Done implements context.Context.
func (p *presence) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		p.done = make(chan struct{})
		if p.left.Load() {
			close(p.done)
		}
	}
	return p.done
}

// Err implements context.Context.
func (p *presence) Err() error {
	if p.left.Load() {
		return context.Canceled
	}
	return nil
}
