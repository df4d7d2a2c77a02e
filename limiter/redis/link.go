package redis

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// ErrAway is the error of a call that was not made, as Redis did not answer
// lately or is not connected yet.
var ErrAway = errors.New("redis is away")

// link is the connection to Redis, made by the first call that finds none. No
// call waits longer than its timeout, and none waits for a Redis that is known
// to be away.
type link struct {
	options Options
	breaker breaker
	counts  counts
	// patient says that callers may wait to find out whether Redis is back. Where
	// they are requests, a goroutine of the link's own does.
	patient bool
	probes  sync.WaitGroup

	mu     sync.Mutex // guards the following
	client rueidis.Client
	closed bool
}

func newLink(o Options) (*link, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &link{options: o.complete()}, nil
}

// do makes one call, if Redis is not away. An error of the call that Redis sent
// as its answer shows that it is there.
func (l *link) do(ctx context.Context, call func(context.Context, rueidis.Client) error) error {
	ok, trial := l.breaker.admit(time.Now())
	if ok && trial && !l.patient {
		l.probe()
		ok = false
	}
	if !ok {
		return ErrAway
	}
	return l.call(ctx, call)
}

// probe finds out whether Redis is back, while the caller goes on.
func (l *link) probe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		l.breaker.abandoned()
		return
	}
	l.probes.Go(func() {
		_ = l.call(context.Background(), func(ctx context.Context, c rueidis.Client) error {
			return c.Do(ctx, c.B().Ping().Build()).Error()
		})
	})
}

// call makes a call that was admitted, and tells the breaker what came of it.
func (l *link) call(ctx context.Context, call func(context.Context, rueidis.Client) error) error {
	bounded, cancel := context.WithTimeout(ctx, l.options.Timeout)
	defer cancel()
	client, err := l.connect(bounded)
	if err == nil {
		err = call(bounded, client)
	}
	now := time.Now()
	switch {
	case answered(err):
		l.breaker.succeeded()
		l.counts.answered(now, err)
	case ctx.Err() != nil: // the caller has gone, which says nothing of Redis
		l.breaker.abandoned()
	default:
		l.breaker.failed(now)
		l.counts.failed(err)
	}
	return err
}

// answered says whether Redis answered, were it with an error. One that is
// loading its data or has lost its cluster is as good as away.
func answered(err error) bool {
	if err == nil || errors.Is(err, errGarbage) || errors.Is(err, errNotInteger) {
		return true
	}
	answer, ok := errors.AsType[*rueidis.RedisError](err)
	return ok && !answer.IsLoading() && !answer.IsClusterDown()
}

// connect returns the client, and makes it if there is none. The library
// connects before it returns one, and cannot be told to stop: who is out of time
// leaves it to whom it is of use.
func (l *link) connect(ctx context.Context) (rueidis.Client, error) {
	l.mu.Lock()
	client, closed := l.client, l.closed
	l.mu.Unlock()
	if closed {
		return nil, rueidis.ErrClosing
	}
	if client != nil {
		return client, nil
	}
	type made struct {
		client rueidis.Client
		err    error
	}
	done := make(chan made, 1)
	go func() {
		client, err := rueidis.NewClient(l.options.client())
		done <- made{l.keep(client, err), err}
	}()
	select {
	case m := <-done:
		return m.client, m.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// keep makes a new client the link's, unless there is one already.
func (l *link) keep(client rueidis.Client, err error) rueidis.Client {
	if err != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.client != nil {
		client.Close()
		return l.client
	}
	l.client = client
	return client
}

// close ends the connection; calls after it fail. It waits for no longer than a
// call may take.
func (l *link) close() {
	l.mu.Lock()
	client := l.client
	l.client, l.closed = nil, true
	l.mu.Unlock()
	if client != nil {
		client.Close()
	}
	l.probes.Wait()
}
