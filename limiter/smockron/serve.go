package smockron

import (
	"context"
	"sync"
	"time"
)

// ServeOptions connect a Master to the wire.
type ServeOptions struct {
	Addresses Addresses
	Queue     int              // most accounting that waits; 0: DefaultQueue
	Now       func() time.Time // the clock
	Store     Store            // nil: memory only
	// Seen, if set, is shown all accounting, before it is judged. It must not keep
	// any of it.
	Seen func(*Accounting)
	// Ready, if set, is called once when the master listens.
	Ready func()
	// Trouble, if set, is told what went wrong, and nil when it goes right again.
	// Only the store can have any.
	Trouble func(error)
}

// DefaultQueue is how much accounting waits at most, unless it is told otherwise:
// a tenth of a second of what a master can take.
const DefaultQueue = 16_384

const (
	// sendQueue and receiveQueue are ZeroMQ's own queues, in messages, for each peer;
	// orderQueue is that of a master's orders, which has room for all that a RESYNC
	// has it tell.
	sendQueue, receiveQueue, orderQueue = 4096, 4096, 131_072

	batchSize    = 128
	housekeeping = 100 * time.Millisecond
	// resyncPause is how long after a RESYNC others of that domain are part of its
	// answer, which goes to all.
	resyncPause = 50 * time.Millisecond
)

// service is a Master at work.
type service struct {
	*Master
	ServeOptions
	queue   *queue
	news    chan []order // from the store
	control *socket
	message message
	resyncs map[string]time.Time // when a domain's was last answered
}

// Serve has the master work until the context ends. It returns an error at once if
// it cannot listen.
func Serve(ctx context.Context, m *Master, o ServeOptions) error {
	w, err := newWire()
	if err != nil {
		return err
	}
	defer w.close()
	if o.Queue == 0 {
		o.Queue = DefaultQueue
	}
	s := &service{
		Master: m, ServeOptions: o, queue: newQueue(o.Queue),
		news: make(chan []order, 1), resyncs: make(map[string]time.Time),
	}
	ctx, end := context.WithCancel(ctx)
	opened := make(chan error, 1)
	var all sync.WaitGroup
	defer all.Wait()
	defer end()
	m.begin(s.Now())
	all.Go(func() { opened <- s.listen(ctx, w, opened) })
	if err := <-opened; err != nil {
		return err
	}
	if s.control, err = w.publisher(orderQueue, true, o.Addresses.Control, true); err != nil {
		return err
	}
	defer s.control.close()
	if o.Ready != nil {
		o.Ready()
	}
	if o.Store != nil {
		all.Go(func() { s.persist(ctx) })
	}
	return s.work(ctx)
}

// listen takes accounting in until the context ends. It tells once how opening
// went.
func (s *service) listen(ctx context.Context, w *wire, opened chan<- error) error {
	socket, err := w.subscriber(receiveQueue, true, s.Addresses.Accounting, "")
	if err != nil {
		return err
	}
	defer socket.close()
	opened <- nil
	for ctx.Err() == nil {
		frames, err := socket.receive()
		if err != nil || frames == nil {
			continue // it is ending, or there was nothing
		}
		a, err := parseAccounting(frames)
		if err != nil {
			s.reject(err)
			continue
		}
		s.queue.push(a)
	}
	return nil
}

// work accounts, and orders gatekeepers to wait, until the context ends.
func (s *service) work(ctx context.Context) error {
	ticks := time.NewTicker(housekeeping)
	defer ticks.Stop()
	batch := make([]Accounting, batchSize)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			s.Sweep(s.Now())
			s.count(s.queue.lost())
			s.meet()
		case orders := <-s.news:
			s.sendAll(orders)
		case <-s.queue.ready:
			for left := 1; left > 0 && ctx.Err() == nil; {
				var n int
				n, left = s.queue.take(batch)
				for i := range batch[:n] {
					s.handle(&batch[i])
				}
			}
		}
	}
}

// handle is what one message causes.
func (s *service) handle(a *Accounting) {
	if s.Seen != nil {
		s.Seen(a)
	}
	now := s.Now()
	if a.Resync {
		s.resync(now, string(a.Domain))
	} else if o, any := s.take(now, a); any {
		s.send(o)
	}
}

// resync tells all that is known of a domain, to all of its gatekeepers.
func (s *service) resync(now time.Time, name string) {
	begun := time.Now() // of the machine's monotonic clock: it only paces
	if begun.Sub(s.resyncs[name]) < resyncPause {
		return
	}
	orders, known := s.orders(now, name)
	if !known {
		return
	}
	s.resyncs[name] = begun
	topic := topicOf(name)
	_ = s.control.send(s.message.command(topic, resyncStart)) // fails only if it is closed
	s.sendAll(orders)
	_ = s.control.send(s.message.command(topic, resyncDone))
}

func (s *service) sendAll(orders []order) {
	for _, o := range orders {
		s.send(o)
	}
}

// send publishes an order, unless it is past by now.
func (s *service) send(o order) {
	if o.until <= s.Now().UnixMilli() {
		s.late()
		return
	}
	_ = s.control.send(s.message.delayUntil(o.topic, o.identifier, o.until)) // fails only if it is closed
}

// meet notes who subscribed to which domain: the gatekeepers.
func (s *service) meet() {
	for {
		frames, err := s.control.poll()
		if err != nil || frames == nil {
			return
		}
		if frame := frames[0]; len(frame) > 0 {
			s.subscribed(frame[1:], frame[0] == 1)
		}
	}
}

// storeEvery is how often changes go to the store, and storeAgain how soon after
// it failed.
const (
	storeEvery = 100 * time.Millisecond
	storeAgain = time.Second
	storeWait  = 2 * time.Second // for one exchange with it
	loadWait   = time.Minute     // for all that it knows
)

// persist keeps the store up to date until the context ends, and once more then.
func (s *service) persist(ctx context.Context) {
	loaded := false
	exchange := func(ctx context.Context) error {
		work, limit := s.save, storeWait
		if !loaded {
			work, limit = s.restore, loadWait
		}
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		news, err := work(ctx, s.Store, s.Now)
		loaded = loaded || err == nil
		if len(news) > 0 {
			select {
			case s.news <- news:
			case <-ctx.Done():
			}
		}
		return err
	}
	var trouble error
	for ctx.Err() == nil {
		wait := storeEvery
		err := exchange(ctx)
		if ctx.Err() != nil {
			break // it was cut short, which is no trouble
		}
		if err != nil {
			wait = storeAgain
		}
		if (err != nil) != (trouble != nil) && s.Trouble != nil {
			s.Trouble(err)
		}
		trouble = err
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	if trouble == nil {
		limited, cancel := context.WithTimeout(context.Background(), storeWait)
		defer cancel()
		_, _ = s.save(limited, s.Store, s.Now) // what is lost is what the last tenth of a second changed
	}
}
