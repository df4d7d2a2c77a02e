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
	// Charges that couldn't be sent are dropped once they are older than stale.
	stale = 2 * time.Second
	// outboxSize and pendingKeys limit the charges that wait to be sent.
	outboxSize  = 1 << 15
	pendingKeys = 1 << 13
	// pageEntries limits the entries of the log of debts that one round trip reads.
	pageEntries = 2000
	// A round trip reads at most pagePackets packets: four thousand a second, which is more than a fleet sends.
	// Redis keeps the latest keptPackets for instances that start later.
	pagePackets = 200
	keptPackets = 4096
)

// Sharer shares the costs of requests through Redis. About every 50 ms, it makes one round trip. It sends the
// charges since the last round trip, added up by key, and reads which keys are in debt. It implements
// limiter.Sharer. It doesn't share external classes, because another service sets their waits.
//
// A key's account in Redis is not an amount but a time: the time that the key needs to earn what it was
// charged. A client's standing multiplies its earnings, so the instance that charges the client divides that
// time by the standing.
type Sharer struct {
	limiter.Packets
	link   *link
	outbox *limiter.Outbox
	rates  atomic.Pointer[rates]
	names  names
	seal   seal
	script *rueidis.Lua

	// Only Run uses the following fields.
	pending pending
	debtors log
	packets log
	ahead   time.Duration // the server's clock minus this instance's; valid if known
	known   bool          // the server's clock is known
}

var _ limiter.Sharer = (*Sharer)(nil)

// NewSharer makes a Sharer for the classes of a policy. It doesn't connect to Redis.
func NewSharer(o Options, p limiter.Policy) *Sharer {
	l := newLink(o)
	n := l.options.names()
	s := &Sharer{
		Packets: limiter.NewPackets(), link: l, outbox: limiter.NewOutbox(outboxSize), pending: pending{},
		names: n, seal: newSeal(l.options.Salt), script: rueidis.NewLuaScript(shareScript),
		debtors: log{name: n.log()}, packets: log{name: n.packets()},
	}
	s.SetPolicy(p)
	return s
}

// SetPolicy makes the Sharer share the classes of a different policy. It may be called at any time.
func (s *Sharer) SetPolicy(p limiter.Policy) {
	r := newRates(p)
	s.rates.Store(&r)
}

// Offer implements limiter.Sharer.
func (s *Sharer) Offer(c limiter.Charge) bool {
	if c.Event != limiter.Settled || c.Cost <= 0 {
		return true // this charge needn't be shared
	}
	if _, shared := (*s.rates.Load())[c.Key.Class]; !shared {
		return true
	}
	return s.outbox.Offer(c)
}

// Run implements limiter.Sharer. While Redis can't be reached, Run keeps trying. It returns only when the
// context ends, with the context's error.
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

// exchange makes one round trip: it sends a batch of charges and reads the next pages of the logs. It reports
// whether there is more to send or to read.
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
		var err error
		more, err = s.learn(time.Now(), b, s.script.Exec(ctx, client, b.keys, b.args), in)
		return err
	})
	s.link.note(func(state *State) { state.Pending = len(s.pending) })
	return err == nil && (more || len(s.pending) > 0)
}

// mostCharges limits the charges of one round trip. Redis takes about 15 µs for each charge, and can do nothing
// else during that time.
const mostCharges = 1000

// batch holds the arguments of one run of the script.
type batch struct {
	sent       time.Time
	keys, args []string
	charges    []charge
}

// charge is one charge of a batch.
type charge struct {
	key limiter.Key
	debit
}

func (s *Sharer) batch(now time.Time) *batch {
	b := &batch{sent: now, keys: []string{s.debtors.name, s.packets.name}, args: []string{
		integer(s.deadline(now)), integer(logLength), s.debtors.from(), integer(pageEntries),
		s.packets.from(), integer(pagePackets), integer(keptPackets), integer(known.Counts.Milliseconds()),
	}}
	r := *s.rates.Load()
	for k, d := range s.pending {
		if len(b.charges) == mostCharges {
			break
		}
		delete(s.pending, k)
		if rate, shared := r[k.Class]; shared {
			b.charges = append(b.charges, charge{k, d})
			b.keys = append(b.keys, s.names.account(k))
			b.args = append(b.args, integer(micros(d.cost.Seconds()*rate.perSecond)), integer(rate.burst), integer(rate.most),
				integer(d.ran(now).Microseconds()), s.seal.close(k))
		}
	}
	for range len(s.Packets) {
		b.args = append(b.args, string(<-s.Packets))
	}
	return b
}

// learn reads the answer to a batch and raises the debts in it. It returns the last error in the answer.
func (s *Sharer) learn(now time.Time, b *batch, r rueidis.RedisResult, in limiter.Sink) (more bool, err error) {
	lost, raised := uint64(0), uint64(0)
	note := func(failure error) {
		if failure != nil {
			err = failure
		}
	}
	raise := func(k limiter.Key, owes int64) {
		if owes > 0 {
			raised++
			in.Raise(now, k, b.sent.Add(time.Duration(min(owes, longestOwed))*time.Microsecond))
		}
	}
	answer, failure := s.answer(b.sent, r)
	note(failure)
	for i, c := range b.charges {
		if i >= len(answer.owes) { // the batch arrived after its deadline, or Redis didn't answer it
			lost += c.charges
			continue
		}
		owes, failure := answer.owes[i].AsInt64()
		if note(failure); failure != nil {
			lost += c.charges
		}
		raise(c.key, owes)
	}
	if failure == nil {
		page, failure := s.debtors.page(answer.now, answer.page)
		note(failure)
		for _, e := range page {
			if k, ok := s.seal.open(e.text); ok && s.shares(k.Class) {
				raise(k, e.left)
			}
		}
		more = len(page) == pageEntries
		page, failure = s.packets.page(answer.now, answer.packets)
		note(failure)
		for _, e := range page {
			if e.left > 0 {
				in.Learn(now, []byte(e.text))
			}
		}
	}
	s.link.note(func(state *State) {
		state.Raised, state.Dropped = state.Raised+raised, state.Dropped+lost
	})
	return more, err
}

// answer is the script's answer.
type answer struct {
	now           int64 // the server's clock, in microseconds
	owes          []rueidis.RedisMessage
	page, packets rueidis.RedisMessage
}

// answer reads the parts of an answer, and stores how far the server's clock is ahead of this instance's.
func (s *Sharer) answer(sent time.Time, r rueidis.RedisResult) (a answer, err error) {
	got, err := r.ToArray()
	if err != nil {
		return a, err
	}
	if len(got) != 4 {
		return a, errGarbage
	}
	if a.now, err = got[0].AsInt64(); err != nil || a.now <= 0 {
		return a, errGarbage
	}
	if a.owes, err = got[1].ToArray(); err != nil {
		return a, errGarbage
	}
	a.page, a.packets = got[2], got[3]
	s.ahead, s.known = time.UnixMicro(a.now).Sub(sent), true
	return a, nil
}

// longestOwed is the longest debt that is accepted, in microseconds: a day.
const longestOwed = 24 * 3600 * 1e6

func (s *Sharer) shares(class string) bool {
	_, shared := (*s.rates.Load())[class]
	return shared
}

// Status implements limiter.Sharer; its Detail is a State.
func (s *Sharer) Status() limiter.SharingStatus { return s.State().status() }

// State returns the Sharer's state.
func (s *Sharer) State() State {
	l := s.link.state()
	l.Dropped += s.outbox.Dropped()
	return l
}

// deadline returns the latest time, by the server's clock in microseconds, at which Redis may still apply a
// charge that is sent now. It returns 0 while the server's clock is unknown.
func (s *Sharer) deadline(now time.Time) int64 {
	if !s.known {
		return 0
	}
	return max(1, now.Add(stale+s.ahead).UnixMicro())
}

// Options define where Redis is and how to use it. They are validated with the configuration.
type Options struct {
	Address            string      // host:port, or the path of a Unix socket
	Username, Password string      // for the server's ACL; both empty: no login
	Database           int         // the database's number, from 0
	TLS                *tls.Config // nil: unencrypted

	// Timeout limits each call and each attempt to connect. Zero means defaultTimeout.
	Timeout time.Duration
	Prefix  string // the beginning of the names of all keys
	// Salt is mixed into the hashes in the names of keys. Without a secret salt, anyone who can read Redis can
	// identify clients by hashing all addresses. All instances need the same salt.
	Salt string
}

// defaultTimeout is the default of Options.Timeout.
const defaultTimeout = 250 * time.Millisecond

func (o Options) names() names { return names{prefix: o.Prefix, salt: o.Salt} }

// client makes the options of the client library. The buffers suit batches of small commands. TCP keepalive
// soon closes a connection whose server no longer answers.
func (o Options) client() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:         []string{o.Address},
		ForceSingleClient:   true,
		Username:            o.Username,
		Password:            o.Password,
		SelectDB:            o.Database,
		TLSConfig:           o.TLS,
		ClientName:          "tempomat",
		Dialer:              net.Dialer{Timeout: o.Timeout, KeepAlive: time.Second},
		ConnWriteTimeout:    max(2*o.Timeout, time.Second),
		ReadBufferEachConn:  64 << 10,
		WriteBufferEachConn: 64 << 10,
		BlockingPoolSize:    64,
		PipelineMultiplex:   -1, // one connection
		DisableCache:        true,
		DisableRetry:        true, // the next batch tries again
	}
}

// pending holds the charges that haven't been sent yet, added up by key. The number of keys and the charges'
// age are limited. Only one goroutine may use it.
type pending map[limiter.Key]debit

// debit is the sum of the charges of one key.
type debit struct {
	cost    time.Duration // divided by the standing, because an account in Redis has one rate per class
	used    time.Duration // CPU time
	began   time.Time     // when the earliest of the requests started
	since   time.Time     // when the first charge was added
	charges uint64
}

// add adds a charge. It returns false if there is no room for another key.
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

// ran returns the time for which the key's earnings pay for its requests while they run: the CPU time that
// they used, but no more than the time since the first one began.
func (d *debit) ran(now time.Time) time.Duration {
	return max(0, min(d.used, now.Sub(d.began)))
}

// forget drops debits that are older than age, and returns how many charges they contained. Clients are
// therefore not charged for old requests after an outage.
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
// will have its full burst again if it isn't charged any more. A charge moves that moment forward by the time
// that the key takes to earn the cost. At that moment, the account is full. It expires half a minute later,
// plus the duration of its longest request, so the earnings of one period can't pay for several concurrent
// requests. (This is the virtual scheduling algorithm of the generic cell rate algorithm, ITU-T I.371.)
//
// Keys in debt are announced in a log, which all instances read.

// shareScript does one round trip. It charges accounts, announces the keys that are then in debt, reads both
// logs, and adds packets to the second log. It returns the time in microseconds, a list, and a page of each
// log. The list contains how many microseconds each key owes, 0 or less if it owes nothing. If a part fails,
// its error replaces its result. If the server was unresponsive until after the deadline, the script charges
// nothing, and the list is empty.
//
// KEYS are the log of keys in debt, the log of packets, and the accounts. ARGV begins with eight numbers: (1)
// the deadline, as Unix time in microseconds, or 0 for none; for the first log, (2) its length, (3) where to
// continue reading and (4) how many entries to read; for the log of packets, (5) where to continue reading, (6)
// how many entries to read, (7) its length and (8) for how many milliseconds an entry is valid. Five values for
// each account follow: the charge, the burst, how far in the future the account may be, how long the charged
// requests ran (all in microseconds), and the sealed key, which is empty if the key may not be announced. The
// credit that a key earns while its requests run pays for them, even if the key had its full burst. The
// remaining ARGV are packets.
const shareScript = `
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local function integer(x) return string.format('%.0f', x) end

local function charge(account, i)
  local cost, burst, most = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local ran, sealed = tonumber(ARGV[i + 3]), ARGV[i + 4]
  local full = redis.pcall('GET', account) or 0
  if type(full) == 'table' then
    return full
  end
  full = math.min(math.max(tonumber(full) or 0, now - ran) + cost, now + most)
  local kept = math.max(full - now, 0) + ran + 30000000
  local done = redis.pcall('SET', account, integer(full), 'PX', integer(math.ceil(kept / 1000)))
  if done.err then
    return done
  end
  local owes = full - burst - now
  if owes > 0 and sealed ~= '' then
    redis.pcall('XADD', KEYS[1], 'MAXLEN', '~', ARGV[2], '*', 'k', sealed, 'u', integer(full - burst))
    redis.pcall('PEXPIRE', KEYS[1], 3600000)
  end
  return owes
end

local owed, at = {}, 9
local late = tonumber(ARGV[1]) > 0 and now > tonumber(ARGV[1])
for i = 3, #KEYS do
  if not late then
    owed[i - 2] = charge(KEYS[i], at)
  end
  at = at + 5
end
local page = redis.pcall('XRANGE', KEYS[1], ARGV[3], '+', 'COUNT', ARGV[4])
local packets = redis.pcall('XRANGE', KEYS[2], ARGV[5], '+', 'COUNT', ARGV[6])
for i = at, #ARGV do
  redis.pcall('XADD', KEYS[2], 'MAXLEN', '~', ARGV[7], '*', 'k', ARGV[i], 'u', integer(now + ARGV[8] * 1000))
  redis.pcall('PEXPIRE', KEYS[2], ARGV[8])
end
return {now, owed, page, packets}
`

// logLength is the minimum number of entries that the log of keys in debt keeps. An instance that starts reads
// them to learn which keys are in debt.
const logLength = 1 << 15

// rate is the budget of a class in the unit of accounts in Redis: the number of microseconds that a key takes
// to earn an amount.
type rate struct {
	perSecond float64 // microseconds to earn a CPU-second
	burst     int64   // microseconds to earn a full burst
	most      int64   // microseconds to earn a full burst and the deepest debt
}

// rates are the rates of the classes that are shared, by name.
type rates map[string]rate

// mostMicros is the largest amount: the microseconds of ten years.
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

// State is the state of a Sharer or a Checker, as shown by the doctor.
type State struct {
	Connected  bool   `json:"connected"`
	RoundTrips uint64 `json:"roundTrips"` // calls that Redis answered
	Failures   uint64 `json:"failures"`   // calls that Redis didn't answer
	Pending    int    `json:"pending"`    // for a Sharer: keys with charges that haven't been sent yet
	Dropped    uint64 `json:"dropped"`    // charges that weren't shared, or perhaps weren't
	Raised     uint64 `json:"raised"`     // how often a key was found in debt
	// LastError is the last error, including errors that Redis returned; empty if there was none.
	LastError string `json:"lastError,omitempty"`
}

// status converts the State to the form that all Sharers have in common.
func (s State) status() limiter.SharingStatus {
	return limiter.SharingStatus{
		Up:   map[string]bool{"redis": s.Connected},
		Sent: s.RoundTrips, Received: s.Raised, Dropped: s.Dropped, Failed: s.Failures,
		Detail: s,
	}
}
