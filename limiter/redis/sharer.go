package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"math"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"tempomat/limiter"
	"tempomat/limiter/known"
)

const (
	shareEvery = 50 * time.Millisecond
	// stale is the age at which a charge that could not be sent is dropped.
	stale = 2 * time.Second
	// outboxSize and pendingKeys bound what waits to be sent.
	outboxSize  = 1 << 15
	pendingKeys = 1 << 13
	// pageEntries bound what is read of a log in one round trip.
	pageEntries = 2000
	// Up to pagePackets packets are read in every packetsEvery-th round trip: four thousand a
	// second, more than a fleet sends. Recent ones are kept for instances that start.
	pagePackets, packetsEvery = 1000, 5
	keptPackets               = 4096
)

// Sharer shares what requests cost through Redis. About every 50 ms it sends what
// was charged in the meantime, added up by key, in one round trip, and learns which keys
// owe in all. It implements limiter.Sharer; classes that are told when to wait are
// not shared.
//
// A key's account in Redis is a time, not a sum: how long it takes to earn what was
// charged. So a client's standing, which multiplies what it earns, counts there as
// well: the sidecar that charges it divides the time by it.
type Sharer struct {
	limiter.Packets
	link   *link
	outbox *limiter.Outbox
	rates  atomic.Pointer[rates]
	names  names
	seal   seal
	charge *script
	read   *script
	tell   *script

	pending pending // Run's
	shards  []shard // Run's
	packets shard   // Run's: a log of packets, read once one was to be carried
	carries bool    // Run's: one was
	trips   int     // Run's
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

// NewSharer makes a Sharer for the classes of a policy. It opens nothing.
func NewSharer(o Options, p limiter.Policy) *Sharer {
	l := newLink(o)
	l.patient = true // Run is
	s := &Sharer{
		Packets: limiter.NewPackets(), link: l, outbox: limiter.NewOutbox(outboxSize), pending: pending{},
		names: l.options.names(), seal: newSeal(l.options.Salt), shards: make([]shard, 1),
		charge: newScript(chargeScript), read: newScript(readScript), tell: newScript(tellScript),
	}
	if o.Cluster {
		s.shards = make([]shard, clusterShards)
	}
	for i := range s.shards {
		s.shards[i].log = s.names.log(i)
	}
	s.packets.log = s.names.packets()
	s.SetPolicy(p)
	return s
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
	lost := uint64(0)
	s.outbox.Drain(func(c limiter.Charge) {
		if !s.pending.add(c) {
			lost++
		}
	})
	lost += s.pending.forget(time.Now(), stale)
	s.link.note(func(state *State) { state.Dropped += lost })
	err := s.link.do(ctx, func(ctx context.Context, client rueidis.Client) error {
		b := s.batch(time.Now())
		results := pipeline(ctx, client, b.runs)
		var err error
		more, err = s.learn(time.Now(), b, results, in)
		return err
	})
	s.link.note(func(state *State) { state.Pending = len(s.pending) })
	return err == nil && (more || len(s.pending) > 0)
}

// mostCharges is how many a round trip carries at most: a Redis takes some 15 µs for each, and the trip has a
// time limit, after which all of it is lost.
const mostCharges = 1000

// batch is one round trip: the charges, then a page of each log.
type batch struct {
	sent    time.Time
	runs    []run
	charges []charge
	packets bool // a page of packets is read behind those of the logs
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
	for k, d := range s.pending {
		if len(b.charges) == mostCharges {
			break
		}
		delete(s.pending, k)
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
	}
	for i := range s.shards {
		b.runs = append(b.runs, run{
			script: s.read,
			keys:   []string{s.shards[i].log},
			args:   []string{s.shards[i].from(), integer(pageEntries)},
		})
	}
	s.addPackets(b)
	return b
}

// addPackets adds those that are to be carried, and every few trips a page of what others have carried.
func (s *Sharer) addPackets(b *batch) {
	b.packets = s.carries && s.trips%packetsEvery == 0
	s.trips++
	log := []string{s.packets.log}
	if b.packets {
		b.runs = append(b.runs, run{script: s.read, keys: log, args: []string{s.packets.from(), integer(pagePackets)}})
	}
	for range len(s.Packets) {
		s.carries = true
		args := []string{string(<-s.Packets), integer(keptPackets), integer(known.Counts.Milliseconds())}
		b.runs = append(b.runs, run{script: s.tell, keys: log, args: args})
	}
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
	if at := len(b.charges) + len(s.shards); b.packets {
		page, failure := s.packets.page(b.sent, results[at])
		note(failure)
		for _, e := range page {
			if e.owes > 0 {
				in.Learn(now, []byte(e.sealed))
			}
		}
	}
	s.link.note(func(state *State) {
		if len(b.charges) > 0 {
			state.Batches++
		}
		state.Keys, state.Raised, state.Dropped = state.Keys+uint64(len(b.charges)), state.Raised+raised, state.Dropped+lost
		if answers > 0 && err != nil {
			state.LastError = err.Error() // a part of a cluster is away
		}
	})
	if answers > 0 {
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

// Status implements limiter.Sharer; its Detail is a State.
func (s *Sharer) Status() limiter.SharingStatus { return s.State().status() }

// State is the Sharer's state.
func (s *Sharer) State() State {
	l := s.link.state()
	l.Dropped += s.outbox.Dropped()
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

// Options say where Redis is, and how it is used. The configuration has checked what they may be.
type Options struct {
	// Addresses, as host:port or the path of a Unix socket: of the one server, of some nodes of
	// a cluster, or of the sentinels.
	Addresses []string
	// Cluster is true if they belong to a cluster.
	Cluster bool
	// SentinelMaster is the name of the master that the sentinels know, and says that
	// the addresses are theirs.
	SentinelMaster string

	Username, Password string      // of the servers' ACL; both empty: none
	Database           int         // 0 in a cluster
	TLS                *tls.Config // nil: unencrypted

	// Timeout bounds each call, and each attempt to connect. Zero is DefaultTimeout.
	Timeout time.Duration
	// Prefix begins the names of all keys; it may have no braces. Empty is DefaultPrefix.
	Prefix string
	// Salt is mixed into the hashes in the names of keys, so readers of these cannot find the
	// clients by trying. All sidecars must have the same one.
	Salt string
}

// Defaults of Options.
const (
	DefaultTimeout = 250 * time.Millisecond
	DefaultPrefix  = "tempomat:"
)

func (o Options) complete() Options {
	o.Timeout, o.Prefix = cmp.Or(o.Timeout, DefaultTimeout), cmp.Or(o.Prefix, DefaultPrefix)
	return o
}

func (o Options) names() names { return names{prefix: o.Prefix, salt: o.Salt} }

// client says how the client library is to connect. Its buffers are for batches
// of small commands; a server that does not answer loses its connections soon.
func (o Options) client() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:       o.Addresses,
		ForceSingleClient: !o.Cluster && o.SentinelMaster == "",
		Username:          o.Username,
		Password:          o.Password,
		SelectDB:          o.Database,
		TLSConfig:         o.TLS,
		ClientName:        "tempomat",
		Sentinel: rueidis.SentinelOption{
			MasterSet: o.SentinelMaster,
			TLSConfig: o.TLS,
		},
		ClusterOption:       rueidis.ClusterOption{ShardsRefreshInterval: time.Second},
		Dialer:              net.Dialer{Timeout: o.Timeout, KeepAlive: time.Second},
		ConnWriteTimeout:    max(2*o.Timeout, time.Second),
		ReadBufferEachConn:  64 << 10,
		WriteBufferEachConn: 64 << 10,
		BlockingPoolSize:    64,
		PipelineMultiplex:   -1, // one connection
		DisableCache:        true,
		DisableRetry:        true, // nothing is sent again; the next batch is the next attempt
	}
}

// pending is what is not sent yet, added up by key: of a bounded number of keys, for a bounded
// time. Its methods are for one goroutine.
type pending map[limiter.Key]debit

// debit is what a key is to be charged.
type debit struct {
	cost    time.Duration // as a key of no standing would owe it: an account knows one rate
	used    time.Duration // CPU time
	began   time.Time     // when the first of the requests went on
	since   time.Time     // of the first charge
	charges uint64
}

// add puts a charge in; false says that there is no room for its key.
func (p pending) add(c limiter.Charge) bool {
	d, known := p[c.Key]
	if !known {
		if len(p) >= pendingKeys {
			return false
		}
		d.since, d.began = c.At, c.At
	}
	d.cost += c.NormalizedCost()
	d.used += c.Cost
	if c.Until.Before(d.began) {
		d.began = c.Until
	}
	d.charges++
	p[c.Key] = d
	return true
}

// ran is for how long the key earned while its requests ran: what they cost was
// used in the time before, but not before they began.
func (d *debit) ran(now time.Time) time.Duration {
	return max(0, min(d.used, now.Sub(d.began)))
}

// forget drops what is older than age, and counts the charges: who was away tells nobody of the past.
func (p pending) forget(now time.Time, age time.Duration) (lost uint64) {
	for k, d := range p {
		if now.Sub(d.since) > age {
			lost += d.charges
			delete(p, k)
		}
	}
	return lost
}

// An account in Redis is one integer: the Unix time, in microseconds of the server's clock, at which the key
// will have its whole burst again, were it charged with nothing more. A charge moves it on by the time in
// which its cost is earned. An account whose time has come is full; it expires half a minute later than that,
// or later by the duration of its longest request, so the same time does not pay for concurrent requests
// again. (The virtual scheduling of the generic cell rate algorithm, ITU-T I.371.)
//
// Keys that owe are announced in a log, a stream of bounded length that all sidecars read.

// chargeScript charges an account, and announces the key if it then owes. It answers how long
// the key owes, 0 or below if it does not, and the time. A charge that comes after its
// deadline, because the server stood still, is not made: the answer is empty except for the
// time.
//
// KEYS are the account and the log. ARGV are, in microseconds, the charge, the burst, the most
// that the account may be in the future, and the deadline as Unix time, 0 for none; then the
// sealed key (empty: no announcement), how many entries the log keeps, and for how long, in
// microseconds, the charged requests ran: what was earned in that time pays for them, even if
// the key had its whole burst.
const chargeScript = `
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local deadline = tonumber(ARGV[4])
if deadline > 0 and now > deadline then
  return {now}
end
local charge, burst, last = tonumber(ARGV[1]), tonumber(ARGV[2]), now + tonumber(ARGV[3])
local full = tonumber(redis.call('GET', KEYS[1]) or 0) or 0
full = math.min(math.max(full, now - tonumber(ARGV[7])) + charge, last)
local kept = math.max(full - now, 0) + tonumber(ARGV[7]) + 30000000
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', string.format('%.0f', math.ceil(kept / 1000)))
local owes = full - burst - now
if owes > 0 and ARGV[5] ~= '' then
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[6], '*', 'k', ARGV[5], 'u', string.format('%.0f', full - burst))
  redis.call('PEXPIRE', KEYS[2], 3600000)
end
return {now, owes}
`

// readScript reads the log on from an entry: KEYS[1] is the log, ARGV are where to
// begin and how many entries to read at most. It answers the time in microseconds,
// and the entries.
const readScript = `
local clock = redis.call('TIME')
return {clock[1] * 1000000 + clock[2], redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])}
`

// tellScript has a packet carried: KEYS[1] is the log of packets, ARGV are the packet, how many the
// log keeps, and for how many milliseconds. It is an entry like those of keys that owe.
const tellScript = `
local clock = redis.call('TIME')
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'k', ARGV[1], 'u', string.format('%.0f', (clock[1] * 1000 + ARGV[3]) * 1000))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 0
`

// clusterShards is in how many parts accounts and logs are divided in a cluster.
// An account and its log have to be in one slot.
const clusterShards = 16

// logLength is how many entries all logs keep at least, together. Newcomers learn
// from them who owes.
const logLength = 1 << 15

// rate is the budget of a class in the units of the accounts in Redis: microseconds of the time
// in which a key earns an amount.
type rate struct {
	perSecond float64 // a CPU-second is earned in so many microseconds
	burst     int64   // a whole burst is
	most      int64   // a whole burst and the deepest debt are
}

// rates are those of the classes that are shared, by name.
type rates map[string]rate

// mostMicros bounds an amount, as the time in which a key earns it: ten years.
const mostMicros = 10 * 365 * 24 * 3600 * 1e6

func newRates(p limiter.Policy) rates {
	memory := cmp.Or(max(0, p.Memory), limiter.DefaultMemory)
	r := rates{}
	for _, c := range p.Classes {
		if c.Budget.External || c.Budget.LocalOnly || !(c.Budget.CPUs > 0) {
			continue
		}
		per := 1e6 / c.Budget.CPUs
		burst := micros(c.Budget.Burst.Seconds() * per)
		r[c.Name] = rate{perSecond: per, burst: burst, most: burst + memory.Microseconds()}
	}
	return r
}

func micros(x float64) int64 { return int64(min(math.Ceil(x), mostMicros)) }

// State is what the doctor shows of a Sharer or a Checker.
type State struct {
	Connected  bool   `json:"connected"`
	RoundTrips uint64 `json:"roundTrips"` // calls that Redis answered
	Failures   uint64 `json:"failures"`   // calls that it did not
	Batches    uint64 `json:"batches"`    // of a Sharer: calls that shared charges
	Keys       uint64 `json:"keys"`       // of a Sharer: keys in these, each once in each
	Pending    int    `json:"pending"`    // of a Sharer: keys with charges that are not sent yet
	Dropped    uint64 `json:"dropped"`    // charges that were not shared, or may not have been
	Raised     uint64 `json:"raised"`     // times that a key was found to owe
	// LastError is the last error, also of a call that was answered; empty: none so far.
	LastError string `json:"lastError,omitempty"`
	// LastContact is when Redis last answered; zero: never.
	LastContact time.Time `json:"lastContact,omitzero"`
}

// status is a Sharer's State in the words of all Sharers.
func (s State) status() limiter.SharingStatus {
	return limiter.SharingStatus{
		Up:   map[string]bool{"redis": s.Connected},
		Sent: s.RoundTrips, Received: s.Raised, Dropped: s.Dropped, Failed: s.Failures,
		Detail: s,
	}
}
