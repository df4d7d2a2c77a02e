package master

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"tempomat/limiter/smockron"
)

// ServeOptions connect a Master to the wire.
type ServeOptions struct {
	Addresses smockron.Addresses
	Queue     int              // most accounting that waits; 0: smockron.DefaultQueue
	Now       func() time.Time // the clock
	Store     Store            // nil: memory only
	// Seen, if set, is shown all accounting, before it is judged. It must not keep
	// any of it.
	Seen func(*smockron.Accounting)
	// Ready, if set, is called once when the master listens.
	Ready func()
	// Trouble, if set, is told what went wrong, and nil when it goes right again.
	// Only the store can have any.
	Trouble func(error)
}

const (
	housekeeping = 100 * time.Millisecond
	// resyncPause is how long after a RESYNC others of that domain are part of its
	// answer, which goes to all.
	resyncPause = 50 * time.Millisecond
)

// service is a Master at work.
type service struct {
	*Master
	ServeOptions
	queue   chan smockron.Accounting // that waits for the master; when it is full, the oldest goes
	dropped atomic.Uint64            // how many went
	second  int64                    // listen's
	packets int                      // listen's: that came in that second
	news    chan []Order             // from the store
	control *smockron.Control
	resyncs map[string]time.Time // when a domain's was last answered
}

// Serve has the master work until the context ends. It returns an error at once if
// it cannot listen.
func Serve(ctx context.Context, m *Master, o ServeOptions) error {
	w, err := smockron.OpenWire()
	if err != nil {
		return err
	}
	defer w.Close()
	if o.Queue == 0 {
		o.Queue = smockron.DefaultQueue
	}
	s := &service{
		Master: m, ServeOptions: o, queue: make(chan smockron.Accounting, o.Queue),
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

// listen takes accounting in until the context ends. It tells once how opening
// went.
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

// mostPackets bounds what is carried in a second: more than a fleet has to tell.
const mostPackets = 4000

// push has a message wait for the master. When the queue is full, the oldest one goes: it matters
// least by then.
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
		default: // the master has just taken one
		}
	}
}

// work accounts, and orders gatekeepers to wait, until the context ends.
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

// handle is what one message causes.
func (s *service) handle(a *smockron.Accounting) {
	if a.Packet != nil {
		s.control.Carry(a.Packet)
		return
	}
	if s.Seen != nil {
		s.Seen(a)
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
	begun := time.Now() // of the machine's monotonic clock: it only paces
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

// send publishes an order, unless it is past by now.
func (s *service) send(o Order) {
	if o.Until <= s.Now().UnixMilli() {
		s.late()
		return
	}
	s.control.DelayUntil(o.Domain, o.Identifier, o.Until)
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
