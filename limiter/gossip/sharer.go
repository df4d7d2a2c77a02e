package gossip

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"tempomat/limiter"
	"tempomat/limiter/outbox"
)

// Bounds of what waits: charges for the next quarter of an epoch, and messages.
const (
	outboxCharges = 1 << 14
	inboxMessages = 1 << 10
	inboxBytes    = 16 << 20
)

// Sharer shares charges with peers that it finds by itself. All its methods may
// be called concurrently, but Run, which is for once.
type Sharer struct {
	o      Options
	id     node
	outbox *outbox.Outbox
	inbox  chan []byte
	roster *roster
	keys   *memberlist.Keyring // nil: nothing is encrypted

	waiting atomic.Int64  // bytes in the inbox
	overrun atomic.Uint64 // messages that there was no room for
	away    atomic.Uint64 // messages that could not be sent
	setKeys sync.Mutex

	list    *memberlist.Memberlist // of Run
	mu      sync.Mutex             // guards the following
	replica *replica               // nil before Run
}

var _ limiter.Sharer = (*Sharer)(nil)

// New makes a Sharer; it opens nothing. Its error is of the options.
func New(o Options) (*Sharer, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	var drawn [8]byte
	_, _ = rand.Read(drawn[:]) // never fails
	id := node(binary.BigEndian.Uint64(drawn[:]))
	s := &Sharer{
		o: o, id: id, outbox: outbox.New(outboxCharges),
		inbox: make(chan []byte, inboxMessages), roster: newRoster(id),
	}
	if len(o.Keys) > 0 {
		if s.keys, err = memberlist.NewKeyring(o.Keys, o.Keys[0]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Offer implements limiter.Sharer. Only what was spent is told, and true is
// returned of the rest.
func (s *Sharer) Offer(c limiter.Charge) bool {
	if c.Event != limiter.Settled || c.Cost <= 0 {
		return true
	}
	return s.outbox.Offer(c)
}

// Run implements limiter.Sharer. If the sink is a Ledger as well, newcomers are
// told what keys owe. Its error is that the address can not be listened at.
func (s *Sharer) Run(ctx context.Context, in limiter.Sink) error {
	s.mu.Lock()
	s.replica = newReplica(s.id, in)
	s.mu.Unlock()
	ledger, _ := in.(Ledger)
	c, err := s.config(delegate{s, ledger})
	if err != nil {
		return err
	}
	list, err := memberlist.Create(c)
	if err != nil {
		return err
	}
	s.list = list
	var seeker sync.WaitGroup
	seeker.Go(func() { s.seek(ctx) })
	s.serve(ctx)
	seeker.Wait()
	in.SetReplicas(time.Now(), 1) // alone again
	return s.stop()
}

// serve is the one goroutine that keeps the replica.
func (s *Sharer) serve(ctx context.Context) {
	quarter := time.NewTicker(epoch / 4)
	defer quarter.Stop()
	for n := 1; ; {
		select {
		case <-ctx.Done():
			if !s.o.kill {
				s.tick()
			}
			return
		case <-s.roster.changed:
			s.setMembers()
		case m := <-s.inbox:
			s.receive(m)
		case <-quarter.C:
			if n++; n%4 == 0 {
				s.tick()
			} else {
				s.mu.Lock()
				s.collectLocked(time.Now())
				s.mu.Unlock()
			}
		}
	}
}

// collectLocked takes what was offered into the replica.
func (s *Sharer) collectLocked(now time.Time) {
	s.outbox.Drain(func(c limiter.Charge) { s.replica.charge(now, c) })
}

func (s *Sharer) setMembers() {
	live := s.roster.live()
	ids := make([]node, 0, len(live))
	for id := range live {
		ids = append(ids, id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replica.setMembers(time.Now(), ids)
}

// tick sends what is to be told, as packets that may get lost. It waits for nobody.
func (s *Sharer) tick() {
	now := time.Now()
	s.mu.Lock()
	s.collectLocked(now)
	packets := s.replica.tick(now)
	s.mu.Unlock()
	if len(packets) == 0 {
		return
	}
	for _, m := range s.roster.live() {
		for _, p := range packets {
			if s.list.SendBestEffort(m.to, p) != nil {
				s.away.Add(1)
			}
		}
	}
}

func (s *Sharer) receive(m []byte) {
	s.waiting.Add(-int64(len(m)))
	select {
	case <-s.roster.changed: // whoever joins is a member before its state comes
		s.setMembers()
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replica.received(time.Now(), m)
}

// Status implements limiter.Sharer; its Detail is a State.
func (s *Sharer) Status() limiter.SharingStatus { return s.State().status() }

// State tells how it stands.
func (s *Sharer) State() State {
	live := s.roster.live()
	s.mu.Lock()
	defer s.mu.Unlock()
	state := State{Name: s.o.name, Sidecars: 1}
	if s.replica != nil {
		s.replica.describe(&state, live)
	}
	state.Counts.Dropped += s.outbox.Dropped()
	state.Counts.Overrun = s.overrun.Load()
	state.Counts.Unsendable = s.away.Load()
	return state
}

// Ledger is who knows what the keys owe. *limiter.Limiter is one. Without it, a
// sharer can not tell newcomers.
type Ledger interface {
	Classes() []limiter.ClassInfo
	Dump(now time.Time, class string, yield func(limiter.Row) bool)
}

// debtsOf lists who owes, but for private classes. The guesses that requests which
// still run were charged with are among it, and what those cost is told again when
// they are done: a newcomer may count that twice, of the few requests that run at
// that moment.
func debtsOf(now time.Time, l Ledger) (list []debt) {
	for _, c := range l.Classes() {
		if c.Budget.External || c.Budget.CPUs <= 0 || c.Budget.LocalOnly || len(c.Name) > maxClass {
			continue
		}
		l.Dump(now, c.Name, func(r limiter.Row) bool {
			owes := time.Duration(min(-r.Level/c.Budget.CPUs, maxCost.Seconds()) * float64(time.Second))
			if owes >= time.Millisecond && len(r.ID) <= maxID {
				list = append(list, debt{limiter.Key{Class: r.Class, ID: r.ID}, owes})
			}
			return len(list) < maxKeys
		})
	}
	return list
}

// delegate is what memberlist asks and tells.
type delegate struct {
	*Sharer
	ledger Ledger // nil: there is none
}

var _ memberlist.Delegate = delegate{}

// NodeMeta implements memberlist.Delegate.
func (d delegate) NodeMeta(int) []byte { return appendMeta(nil, d.id) }

// GetBroadcasts implements memberlist.Delegate. Totals go straight to all.
func (d delegate) GetBroadcasts(int, int) [][]byte { return nil }

// NotifyMsg implements memberlist.Delegate. It never blocks, and what waits to be
// read is bounded by number and size.
func (d delegate) NotifyMsg(b []byte) {
	size := int64(len(b))
	if size <= maxState && d.waiting.Add(size) <= inboxBytes {
		select {
		case d.inbox <- bytes.Clone(b):
			return
		default:
		}
	}
	if size <= maxState {
		d.waiting.Add(-size)
	}
	d.overrun.Add(1)
}

// LocalState implements memberlist.Delegate. The debts are read before the totals, so
// that no total is charged again that is not among those told with them.
func (d delegate) LocalState(bool) []byte {
	if d.ledger == nil {
		return nil
	}
	now := time.Now()
	debts := debtsOf(now, d.ledger)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.collectLocked(now)
	return d.replica.state(debts)
}

// MergeRemoteState implements memberlist.Delegate.
func (d delegate) MergeRemoteState(b []byte, _ bool) { d.NotifyMsg(b) }
