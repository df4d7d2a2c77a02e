package proxy

import (
	"context"
	"sync"
)

// farewells are a server's connections that have been upgraded. As the server comes to
// its end they are told so, those that can be, and waited for. The zero value has none.
// Its methods may be called concurrently.
type farewells struct {
	mu   sync.Mutex // guards the following
	open map[*farewell]struct{}
	said bool
	none chan struct{} // closed as the last one ends after say; nil before
}

// farewell is one connection: goAway tells its client, and may take as long as that likes.
type farewell struct{ goAway func() }

// add notes a connection until it is removed. goAway is called once at most, in a
// goroutine of its own; nil: the client cannot be told.
func (f *farewells) add(goAway func()) (remove func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := &farewell{goAway}
	if f.open == nil {
		f.open = make(map[*farewell]struct{})
	}
	f.open[one] = struct{}{}
	if f.said {
		one.say()
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.open, one)
		f.endLocked()
	}
}

func (one *farewell) say() {
	if one.goAway != nil {
		go one.goAway()
	}
}

// endLocked notes that none is open, if that is waited for.
func (f *farewells) endLocked() {
	if f.none != nil && len(f.open) == 0 {
		close(f.none)
		f.none = nil
	}
}

// say tells all clients, those of connections to come included, and waits until none
// is open, or the context ends, whose error it returns.
func (f *farewells) say(ctx context.Context) error {
	f.mu.Lock()
	if !f.said {
		f.said = true
		for one := range f.open {
			one.say()
		}
	}
	if f.none == nil {
		f.none = make(chan struct{})
	}
	none := f.none
	f.endLocked()
	f.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
