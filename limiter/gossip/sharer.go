package gossip

import (
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

// Sharer shares charges with peers that it finds by itself. All its methods may
// be called concurrently, but Run, which is for once.
type Sharer struct {
	o          Options
	id         node
	outbox     *outbox.Outbox
	inbox      *inbox
	roster     *roster
	keys       *memberlist.Keyring // nil: nothing is encrypted
	asked      chan node           // who want a summary
	away       atomic.Uint64       // messages that could not be sent
	throughput throughput
	setKeys    sync.Mutex

	mu      sync.Mutex // guards the following
	replica *replica   // nil before Run
	list    *memberlist.Memberlist
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
		o: o, id: id, outbox: outbox.New(o.Outbox),
		inbox: newInbox(id), roster: newRoster(id), asked: make(chan node, 8),
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
	c, err := s.config()
	if err != nil {
		return err
	}
	list, err := memberlist.Create(c)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.list, s.replica = list, newReplica(s.o.rules(), s.id, uint64(s.id), in)
	s.mu.Unlock()
	var helpers sync.WaitGroup
	helpers.Go(func() { s.seek(ctx) })
	if l, ok := in.(Ledger); ok {
		helpers.Go(func() { s.answer(ctx, l) })
	}
	s.serve(ctx)
	helpers.Wait()
	in.SetReplicas(time.Now(), 1) // alone again
	return s.stop()
}

// serve is the one goroutine that keeps the replica.
func (s *Sharer) serve(ctx context.Context) {
	quarter := time.NewTicker(s.o.Epoch / 4)
	defer quarter.Stop()
	epoch := time.NewTimer(s.untilEpoch())
	defer epoch.Stop()
	for {
		select {
		case <-ctx.Done():
			if !s.o.kill {
				s.tick()
			}
			return
		case <-s.roster.changed:
			s.setMembers()
		case m := <-s.inbox.messages:
			s.inbox.taken(m)
			s.receive(m)
		case <-quarter.C:
			s.collect()
		case <-epoch.C:
			s.tick()
			epoch.Reset(s.untilEpoch())
		}
	}
}

func (s *Sharer) untilEpoch() time.Duration {
	now := time.Now()
	return epochs{s.o.Epoch}.end(now).Sub(now)
}

func (s *Sharer) collect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.collectLocked(time.Now())
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

func (s *Sharer) tick() {
	s.mu.Lock()
	now := time.Now()
	s.collectLocked(now)
	messages := s.replica.tick(now)
	s.throughput.sample(now, s.replica.counts)
	s.mu.Unlock()
	s.send(messages)
}

func (s *Sharer) receive(m []byte) {
	s.mu.Lock()
	messages := s.replica.received(time.Now(), m)
	s.mu.Unlock()
	s.send(messages)
}

// send sends messages, as packets that may get lost. It waits for nobody.
func (s *Sharer) send(messages []outbound) {
	if len(messages) == 0 {
		return
	}
	live := s.roster.live()
	for _, l := range messages {
		for _, to := range l.to {
			m, ok := live[to]
			switch {
			case !ok:
			case l.summary:
				select {
				case s.asked <- to:
				default: // it will ask again
				}
			case s.list.SendBestEffort(m.to, l.data) != nil:
				s.away.Add(1)
			}
		}
	}
}

// answer sends summaries to those who asked. It has its own goroutine, as a
// stream may block.
func (s *Sharer) answer(ctx context.Context, l Ledger) {
	for {
		select {
		case <-ctx.Done():
			return
		case to := <-s.asked:
			m, ok := s.roster.live()[to]
			if !ok {
				continue
			}
			now := time.Now()
			debts := debtsOf(now, l)
			s.mu.Lock()
			s.collectLocked(time.Now())
			list, has := s.replica.include(debts)
			s.mu.Unlock()
			data := writeSummary(now, s.id, list, has)
			s.mu.Lock()
			s.replica.counts.Sent += uint64(len(data))
			s.mu.Unlock()
			if s.list.SendReliable(m.to, data) != nil {
				s.away.Add(1)
			}
		}
	}
}

// Status implements limiter.Sharer; its Detail is a State.
func (s *Sharer) Status() limiter.SharingStatus { return s.State().status() }

// State tells how it stands.
func (s *Sharer) State() State {
	live := s.roster.live()
	s.mu.Lock()
	defer s.mu.Unlock()
	state := State{Name: s.o.Name, Sidecars: 1}
	if s.replica != nil {
		s.replica.describe(&state, live)
	}
	state.Counts.Dropped += s.outbox.Dropped()
	state.Counts.Overrun = s.inbox.overrun.Load()
	state.Counts.Unsendable = s.away.Load()
	state.SentPerSecond, state.ReceivedPerSecond = s.throughput.perSecond()
	return state
}
