package front

import (
	"context"
	"sync"
)

// presence is the context of a connection's requests: it ends when the client has left.
// It may be used concurrently.
type presence struct {
	context.Context // of the server

	mu   sync.Mutex // guards the following
	left bool
	done chan struct{} // nil: nobody waits for it
}

// leave says that the client has left.
func (p *presence) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left {
		return
	}
	p.left = true
	if p.done != nil {
		close(p.done)
	}
}

// Done implements context.Context.
func (p *presence) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		p.done = make(chan struct{})
		if p.left {
			close(p.done)
		}
	}
	return p.done
}

// Err implements context.Context.
func (p *presence) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left {
		return context.Canceled
	}
	return nil
}
