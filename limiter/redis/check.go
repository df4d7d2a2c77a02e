package redis

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"tempomat/limiter"
	"tempomat/limiter/quota"
)

// checkScript does in Redis what quota.Bucket.Take does in memory, so check and charge are one atomic step. It
// returns four values: blocked, counter, stamp, now. A check that changes nothing writes nothing. If the key
// doesn't contain a bucket, the script returns an error, and the actor isn't limited. If such a key has no
// expiry, the script gives it the lifetime of a bucket.
//
// KEYS[1] is a hash of the counter c and the stamp t. ARGV contains the size, DripRate and DripSize of the
// bucket, the units, and the lifetime in milliseconds. An optional sixth argument is a Unix time in
// milliseconds, used instead of the server's clock.
const checkScript = `
local size, rate, drip = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local units, lifetime, now = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
if not now then
  local clock = redis.call('TIME')
  now = clock[1] * 1000 + math.floor(clock[2] / 1000)
end
local function integer(value)
  return not value and 0 or string.match(value, '^%-?%d+$') and tonumber(value)
end
local kept = redis.pcall('HMGET', KEYS[1], 'c', 't')
local counter, stamp = integer(kept[1]), integer(kept[2])
if kept.err or not counter or not stamp then
  if redis.call('PTTL', KEYS[1]) == -1 then
    redis.call('PEXPIRE', KEYS[1], lifetime)
  end
  return redis.error_reply(kept.err or 'ERR hash value is not an integer')
end
local changed = false
if counter > 0 then
  local drips = math.floor((now - stamp) / rate)
  if drips > 0 then
    counter = counter - math.min(drips * drip, counter)
    stamp = stamp + drips * rate
    changed = true
  end
end
local blocked = units > 0 and counter > size - math.min(units, size)
if not blocked then
  counter = math.max(0, counter + units)
  if stamp == 0 then
    stamp = now
  end
  changed = true
end
if changed then
  redis.call('HSET', KEYS[1], 'c', string.format('%.0f', counter), 't', string.format('%.0f', stamp))
  redis.call('PEXPIRE', KEYS[1], lifetime)
end
return {blocked and 1 or 0, counter, stamp, now}
`

// errGarbage means that the script didn't return four integers.
var errGarbage = errors.New("redis: invalid answer")

// Checker is the quota.Store that all instances share. Its methods may be called concurrently.
type Checker struct {
	link   *link
	names  names
	script *rueidis.Lua
}

// NewChecker makes a Checker. The first check connects to Redis.
func NewChecker(o Options) *Checker {
	l := newLink(o)
	return &Checker{link: l, names: l.options.names(), script: rueidis.NewLuaScript(checkScript)}
}

// Check implements quota.Store, using the server's clock. It takes one round trip, and at most the Timeout of
// the options. While Redis can't be reached, it returns ErrAway at once. For a zero Bucket, which limits
// nothing, it doesn't call Redis.
func (c *Checker) Check(ctx context.Context, _ time.Time, actor, name string, b quota.Bucket, units int64) (quota.Status, error) {
	if !b.Limits() {
		return b.Status(quota.BucketState{}, 0, 0, false), nil
	}
	return c.check(ctx, c.names.bucket(name, actor), b, units, serverClock)
}

// serverClock makes check use the server's clock instead of a given time.
const serverClock = -1

// check does what Check does, for the name of a Redis key and a time in Unix milliseconds.
func (c *Checker) check(ctx context.Context, key string, b quota.Bucket, units, now int64) (status quota.Status, err error) {
	units = quota.Units(units)
	err = c.link.do(ctx, func(ctx context.Context, client rueidis.Client) error {
		status, err = c.run(ctx, client, key, b, units, now)
		return err
	})
	return status, err
}

// run runs the script once.
func (c *Checker) run(ctx context.Context, client rueidis.Client, key string, b quota.Bucket, units, now int64) (quota.Status, error) {
	args := make([]string, 0, 6)
	for _, n := range []int64{b.Size, b.DripRate, b.DripSize, units, b.Lifetime(units), now} {
		args = append(args, strconv.FormatInt(n, 10))
	}
	if now == serverClock {
		args = args[:len(args)-1]
	}
	got, err := c.script.Exec(ctx, client, []string{key}, args).AsIntSlice()
	if err != nil {
		return quota.Status{}, err
	}
	if len(got) != 4 {
		return quota.Status{}, errGarbage
	}
	return b.Status(quota.BucketState{Counter: got[1], Stamp: got[2]}, got[3], units, got[0] != 0), nil
}

// State returns the Checker's state.
func (c *Checker) State() State { return c.link.state() }

// Close ends the connection. Later checks fail.
func (c *Checker) Close() { c.link.close() }

// names makes the names of Redis keys. A name reveals neither a client's address nor anything that the client
// sent. With a secret salt, an attacker can't find an address by hashing all addresses.
//
// A name is the prefix, a letter for the kind of key, and a hash. The braces have no effect on a single server.
// They remain because earlier releases use the same names.
type names struct{ prefix, salt string }

// bucket returns the name of an actor's bucket for a limit.
func (n names) bucket(limit, actor string) string {
	return n.prefix + "b{" + n.hash("b", limit, actor) + "}"
}

// account returns the name of a key's account.
func (n names) account(k limiter.Key) string { return n.prefix + "a{0}" + n.hash("a", k.Class, k.ID) }

// log returns the name of the log of keys in debt.
func (n names) log() string { return n.prefix + "l{0}" }

// packets returns the name of the log of packets.
func (n names) packets() string { return n.prefix + "t{0}" }

// hash returns the first 128 bits of a hash of all parts, as text. It also hashes the length of each part, so
// different lists of parts never produce the same bytes.
func (n names) hash(parts ...string) string {
	buffer := make([]byte, 0, 256)
	buffer = append(binary.AppendUvarint(buffer, uint64(len(n.salt))), n.salt...)
	for _, part := range parts {
		buffer = append(binary.AppendUvarint(buffer, uint64(len(part))), part...)
	}
	sum := sha256.Sum256(buffer)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}
