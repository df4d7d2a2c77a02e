package redis

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"tempomat/limiter"
	"tempomat/limiter/outbox"
)

const (
	shareEvery = 50 * time.Millisecond
	// stale is the age at which a charge that could not be sent is dropped.
	stale = 2 * time.Second
	// outboxSize and pendingKeys bound what waits to be sent.
	outboxSize  = 1 << 15
	pendingKeys = 1 << 13
	// batchKeys and pageEntries bound what is sent and read in one round trip.
	batchKeys   = 1000
	pageEntries = 2000
)

// Sharer shares what requests cost through Redis. About every 50 ms it sends what
// was charged meanwhile, added up by key, in one round trip, and learns which keys
// owe in all. It implements limiter.Sharer; classes that are told when to wait are
// not shared.
//
// A key's account in Redis is a time, not a sum: how long it takes to earn what was
// charged. So a client's standing, which multiplies what it earns, counts there as
// well: the sidecar that charges it divides the time by it.
type Sharer struct {
	link   *link
	outbox *outbox.Outbox
	rates  atomic.Pointer[rates]
	names  names
	seal   seal
	charge *script
	read   *script

	pending *pending // Run's
	shards  []shard  // Run's

	mu    sync.Mutex // guards the following
	state State      // what the link does not know
}

// shard is what Run knows of one part of the keys.
type shard struct {
	log    string // name of its log
	cursor string // where to read on; empty: at its beginning
	// ahead is the server's clock less ours, in microseconds, as far as that is known.
	ahead int64
	known bool
}

var _ limiter.Sharer = (*Sharer)(nil)

// NewSharer makes a Sharer for the classes of a policy. It opens nothing. The
// error is what is wrong with the options.
func NewSharer(o Options, p limiter.Policy) (*Sharer, error) {
	l, err := newLink(o)
	if err != nil {
		return nil, err
	}
	l.patient = true // Run is
	charge, read := newScript(chargeScript), newScript(readScript)
	s := &Sharer{
		link: l, outbox: outbox.New(outboxSize), pending: newPending(pendingKeys),
		names: l.options.names(), seal: newSeal(l.options.Salt), charge: &charge, read: &read,
		shards: make([]shard, 1),
	}
	if o.Cluster {
		s.shards = make([]shard, clusterShards)
	}
	for i := range s.shards {
		s.shards[i].log = s.names.log(i)
	}
	s.SetPolicy(p)
	return s, nil
}

// SetPolicy has the classes of another policy shared. It may be called at any time.
func (s *Sharer) SetPolicy(p limiter.Policy) {
	r := newRates(p)
	s.rates.Store(&r)
}

// Offer implements limiter.Sharer.
func (s *Sharer) Offer(c limiter.Charge) bool {
	if c.Event != limiter.Settled || c.Cost <= 0 {
		return true // nothing to share
	}
	if _, shared := (*s.rates.Load())[c.Key.Class]; !shared {
		return true
	}
	return s.outbox.Offer(c)
}

// Run implements limiter.Sharer. While Redis is away it goes on trying; its only
// error is the context's.
func (s *Sharer) Run(ctx context.Context, in limiter.Sink) error {
	ticks := time.NewTicker(shareEvery)
	defer ticks.Stop()
	defer s.link.close()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticks.C:
		}
		for s.exchange(ctx, in) {
		}
	}
}

// exchange makes one round trip: it sends a batch, and reads the logs on. It says
// whether there is more of either.
func (s *Sharer) exchange(ctx context.Context, in limiter.Sink) (more bool) {
	s.outbox.Drain(s.pending.add)
	s.pending.forget(time.Now(), stale)
	err := s.link.do(ctx, func(ctx context.Context, client rueidis.Client) error {
		b := s.batch(time.Now())
		results := pipeline(ctx, client, b.runs)
		var err error
		more, err = s.learn(time.Now(), b, results, in)
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Pending = len(s.pending.keys)
	s.state.Dropped = s.outbox.Dropped() + s.pending.dropped
	return err == nil && (more || len(s.pending.keys) > 0)
}

// batch is one round trip: the charges, then a page of each log.
type batch struct {
	sent    time.Time
	runs    []run
	charges []charge
}

// charge is one of a batch.
type charge struct {
	key   limiter.Key
	shard int
	debit
}

func (s *Sharer) batch(now time.Time) *batch {
	b := &batch{sent: now}
	r := *s.rates.Load()
	s.pending.take(batchKeys, func(k limiter.Key, d debit) {
		if rate, shared := r[k.Class]; shared {
			name, shard := s.names.account(k, len(s.shards))
			b.charges = append(b.charges, charge{key: k, shard: shard, debit: d})
			b.runs = append(b.runs, run{
				script: s.charge,
				keys:   []string{name, s.shards[shard].log},
				args: []string{
					integer(micros(d.cost.Seconds() * rate.perSecond)), integer(rate.burst), integer(rate.most),
					integer(s.shards[shard].deadline(now)), s.seal.close(k), integer(int64(logLength / len(s.shards))),
					integer(d.ran(now).Microseconds()),
				},
			})
		}
	})
	for i := range s.shards {
		b.runs = append(b.runs, run{
			script: s.read,
			keys:   []string{s.shards[i].log},
			args:   []string{s.shards[i].from(), integer(pageEntries)},
		})
	}
	return b
}

// learn raises what the answers say to owe. Its error is that of the round trip,
// if nothing was answered at all.
func (s *Sharer) learn(now time.Time, b *batch, results []rueidis.RedisResult, in limiter.Sink) (more bool, err error) {
	answers, lost, raised := 0, uint64(0), uint64(0)
	note := func(failure error) {
		if failure != nil && (err == nil || answered(failure)) {
			err = failure
		}
	}
	raise := func(k limiter.Key, owes int64) {
		if owes > 0 {
			raised++
			in.Raise(now, k, b.sent.Add(time.Duration(min(owes, longestOwed))*time.Microsecond))
		}
	}
	for i, c := range b.charges {
		owes, made, failure := s.shards[c.shard].charged(b.sent, results[i])
		if note(failure); failure == nil {
			answers++
		}
		if !made {
			lost += c.charges
		}
		raise(c.key, owes)
	}
	for i := range s.shards {
		page, failure := s.shards[i].page(b.sent, results[len(b.charges)+i])
		if note(failure); failure == nil {
			answers++
		}
		more = more || len(page) == pageEntries
		for _, e := range page {
			if k, ok := s.seal.open(e.sealed); ok && s.shares(k.Class) {
				raise(k, e.owes)
			}
		}
	}
	s.count(len(b.charges), lost, raised)
	if answers > 0 && err != nil {
		s.link.counts.noted(err) // a part of a cluster is away
		err = nil
	}
	return more, err
}

// longestOwed is the longest debt that is believed, in microseconds: a day.
const longestOwed = 24 * 3600 * 1e6

func (s *Sharer) shares(class string) bool {
	_, shared := (*s.rates.Load())[class]
	return shared
}

func (s *Sharer) count(keys int, lost, raised uint64) {
	s.pending.dropped += lost
	s.mu.Lock()
	defer s.mu.Unlock()
	if keys > 0 {
		s.state.Batches++
	}
	s.state.Keys += uint64(keys) //nolint:gosec // a length
	s.state.Raised += raised
}

// Status implements limiter.Sharer; its Detail is a State.
func (s *Sharer) Status() limiter.SharingStatus { return s.State().status() }

// State tells how the Sharer fares.
func (s *Sharer) State() State {
	l := s.link.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	l.Batches, l.Keys, l.Pending, l.Dropped, l.Raised = s.state.Batches, s.state.Keys, s.state.Pending, s.state.Dropped, s.state.Raised
	return l
}

// deadline is until when, by the server's clock, a charge may be made that is
// sent now; 0 if that clock is not known yet.
func (h *shard) deadline(now time.Time) int64 {
	if !h.known {
		return 0
	}
	return max(1, now.Add(stale).UnixMicro()+h.ahead)
}

// answered takes in what the server's clock said.
func (h *shard) answered(sent time.Time, server int64) bool {
	if server <= 0 || server > math.MaxInt64/2 {
		return false
	}
	h.ahead, h.known = server-sent.UnixMicro(), true
	return true
}

// charged reads the answer to a charge: how many microseconds the key owes, and
// whether the charge was made.
func (h *shard) charged(sent time.Time, r rueidis.RedisResult) (owes int64, made bool, err error) {
	got, err := r.AsIntSlice()
	if err != nil {
		return 0, false, err
	}
	if len(got) == 0 || len(got) > 2 || !h.answered(sent, got[0]) {
		return 0, false, errGarbage
	}
	if len(got) == 1 {
		return 0, false, nil
	}
	return got[1], true, nil
}
