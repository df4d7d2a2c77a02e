package master

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/limiter/smockron"
)

// ServeOptions are the settings of Serve.
type ServeOptions struct {
	Addresses smockron.Addresses
	Now       func() time.Time // the clock
	Store     *Store           // nil: memory only
	// Ready, if set, is called as soon as the master is listening.
	Ready func()
	// Trouble, if set, is called with an error when the store fails, and with nil when the store works again.
	Trouble func(error)
}

const (
	housekeeping = 100 * time.Millisecond
	// resyncPause is the time after a RESYNC in which further ones for the same domain are ignored, because
	// the answer goes to all gatekeepers.
	resyncPause = 50 * time.Millisecond
)

// service is a Master together with its sockets and its store.
type service struct {
	*Master
	ServeOptions
	queue   chan smockron.Accounting // messages for the master; if it is full, the oldest is dropped
	dropped atomic.Uint64            // how many messages were dropped
	second  int64                    // used by listen
	packets int                      // used by listen: packets that arrived in that second
	news    chan []Order             // orders that result from what the store contained
	control *smockron.Control
	resyncs map[string]time.Time // when the orders of a domain were last sent
}

// Serve runs the master until the context ends. It returns an error at once if it can't listen.
func Serve(ctx context.Context, m *Master, o ServeOptions) error {
	w, err := smockron.OpenWire()
	if err != nil {
		return err
	}
	defer w.Close()
	s := &service{
		Master: m, ServeOptions: o, queue: make(chan smockron.Accounting, smockron.MostWaiting),
		news: make(chan []Order, 1), resyncs: make(map[string]time.Time),
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
	if s.control, err = w.Control(o.Addresses.Control); err != nil {
		return err
	}
	defer s.control.Close()
	if o.Ready != nil {
		o.Ready()
	}
	if o.Store != nil {
		all.Go(func() { s.persist(ctx) })
	}
	return s.work(ctx)
}

// listen receives accounting until the context ends. It reports once, on the channel opened, whether it could
// open the socket.
func (s *service) listen(ctx context.Context, w *smockron.Wire, opened chan<- error) error {
	accounts, err := w.Accounts(s.Addresses.Accounting)
	if err != nil {
		return err
	}
	defer accounts.Close()
	opened <- nil
	for ctx.Err() == nil {
		frames := accounts.Receive()
		if frames == nil {
			continue
		}
		a, err := smockron.ParseAccounting(frames)
		if err != nil {
			s.reject(err)
			continue
		}
		if a.Packet != nil {
			if second := s.Now().Unix(); second != s.second {
				s.second, s.packets = second, 0
			}
			if s.packets++; s.packets > mostPackets {
				continue
			}
		}
		s.push(a)
	}
	return nil
}

// mostPackets limits how many packets are forwarded per second. It is more than a fleet sends.
const mostPackets = 4000

// push queues a message for the master. If the queue is full, it drops the oldest message, which matters least.
func (s *service) push(a smockron.Accounting) {
	for {
		select {
		case s.queue <- a:
			return
		default:
		}
		select {
		case <-s.queue:
			s.dropped.Add(1)
		default: // the master has just taken one, so there is room now
		}
	}
}

// work handles accounting and sends orders until the context ends.
func (s *service) work(ctx context.Context) error {
	ticks := time.NewTicker(housekeeping)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			s.sweep(s.Now())
			s.count(s.dropped.Load())
			s.control.PollSubscribers(s.subscribed)
		case orders := <-s.news:
			s.sendAll(orders)
		case a := <-s.queue:
			s.handle(&a)
		}
	}
}

// handle handles one message from a gatekeeper.
func (s *service) handle(a *smockron.Accounting) {
	if a.Packet != nil {
		s.control.Carry(a.Packet)
		return
	}
	now := s.Now()
	if a.Resync {
		s.resync(now, string(a.Domain))
	} else if o, any := s.Account(now, a); any {
		s.send(o)
	}
}

// resync sends all orders of a domain to all of its gatekeepers.
func (s *service) resync(now time.Time, name string) {
	begun := time.Now() // uses the machine's monotonic clock, because this time only limits the rate
	if begun.Sub(s.resyncs[name]) < resyncPause {
		return
	}
	orders, known := s.orders(now, name)
	if !known && name != smockron.PacketDomain {
		return
	}
	s.resyncs[name] = begun
	s.control.ResyncStart(name)
	s.sendAll(orders)
	s.control.ResyncDone(name)
}

func (s *service) sendAll(orders []Order) {
	for _, o := range orders {
		s.send(o)
	}
}

// send publishes an order, unless its time has passed.
func (s *service) send(o Order) {
	if o.Until <= s.Now().UnixMilli() {
		s.late()
		return
	}
	s.control.DelayUntil(o.Domain, o.Identifier, o.Until)
}

// These are the intervals and time limits for the store.
const (
	storeEvery = 100 * time.Millisecond
	storeAgain = time.Second
	storeWait  = 2 * time.Second // the longest time for one exchange with the store
	loadWait   = time.Minute     // the longest time to load everything
)

// persist saves changes until the context ends, and once more after that. Before it saves anything, it loads
// what the store contains.
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
			break // a cancelled exchange isn't a failure
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
		_, _ = s.save(limited, s.Store, s.Now) // if this fails, only the changes of the last tenth of a second are lost
	}
}
