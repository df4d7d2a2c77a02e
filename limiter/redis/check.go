package redis

import (
	"context"
	"crypto/sha1" //nolint:gosec // it is how Redis names scripts
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"tempomat/limiter"
	"tempomat/limiter/quota"
)

// checkScript is quota.Bucket.Take where the data is, so that check and charge are one step. It
// answers: blocked, counter, stamp, now. A check that changes nothing writes nothing. If the
// key isn't a bucket, it answers with an error, and sets a bucket's lifetime if the key had
// none: its actor isn't limited until then.
//
// KEYS[1] is a hash of the counter c and the stamp t; ARGV are the size, DripRate
// and DripSize of the bucket, the units, the lifetime in milliseconds, and, if the
// server's clock is not to be used, the Unix time in milliseconds.
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

// Errors in an answer.
var (
	errGarbage    = errors.New("redis: an answer that makes no sense")
	errNotInteger = errors.New("failed to execute command(s): hash value is not an integer")
)

// Checker is the quota.Store that all sidecars share. Its methods may be called
// concurrently.
type Checker struct {
	link   *link
	names  names
	script *rueidis.Lua
}

// NewChecker makes a Checker. It opens nothing: the first check connects.
func NewChecker(o Options) *Checker {
	l := newLink(o)
	return &Checker{link: l, names: l.options.names(), script: rueidis.NewLuaScript(checkScript)}
}

// Check implements quota.Store by the server's clock. It takes one round trip, and at most the
// timeout of the options; ErrAway comes at once. For the zero Bucket it does not ask Redis.
func (c *Checker) Check(ctx context.Context, _ time.Time, actor, name string, b quota.Bucket, units int64) (quota.Status, error) {
	if !b.Limits() {
		return b.Status(quota.BucketState{}, 0, 0, false), nil
	}
	return c.check(ctx, c.names.bucket(name, actor), b, units, serverClock)
}

// serverClock is given instead of a time to use that of the server.
const serverClock = -1

// check is Check with the name of the Redis key, and the time in Unix milliseconds.
func (c *Checker) check(ctx context.Context, key string, b quota.Bucket, units, now int64) (status quota.Status, err error) {
	units = quota.Units(units)
	err = c.link.do(ctx, func(ctx context.Context, client rueidis.Client) error {
		status, err = c.run(ctx, client, key, b, units, now)
		return err
	})
	return status, err
}

// run makes a check by the script.
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
		return quota.Status{}, failed(err)
	}
	if len(got) != 4 {
		return quota.Status{}, errGarbage
	}
	return b.Status(quota.BucketState{Counter: got[1], Stamp: got[2]}, got[3], units, got[0] != 0), nil
}

// failed says of Redis' own errors what they mean for the check.
func failed(err error) error {
	if _, ok := errors.AsType[*rueidis.RedisError](err); ok {
		return fmt.Errorf("failed to execute command(s): %w", err)
	}
	return err
}

// State is the Checker's state.
func (c *Checker) State() State { return c.link.state() }

// Close ends the connection. Checks after it fail.
func (c *Checker) Close() { c.link.close() }

// script is one that is run many times in a pipeline.
type script struct{ text, sha string }

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // it is how Redis names scripts
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

// run is one run of a script in a pipeline.
type run struct {
	script *script
	keys   []string
	args   []string
}

func (r run) command(c rueidis.Client) rueidis.Completed {
	return c.B().Evalsha().Sha1(r.script.sha).Numkeys(int64(len(r.keys))).Key(r.keys...).Arg(r.args...).Build()
}

func (r run) commandWithText(c rueidis.Client) rueidis.Completed {
	return c.B().Eval().Script(r.script.text).Numkeys(int64(len(r.keys))).Key(r.keys...).Arg(r.args...).Build()
}

// pipeline makes runs in one round trip. Those whose script the server does not
// have, which therefore did nothing, take another one.
func pipeline(ctx context.Context, c rueidis.Client, runs []run) []rueidis.RedisResult {
	commands := make([]rueidis.Completed, len(runs))
	for i, r := range runs {
		commands[i] = r.command(c)
	}
	results := c.DoMulti(ctx, commands...)
	var missing []int
	commands = commands[:0]
	for i, r := range runs {
		if err, ok := rueidis.IsRedisErr(results[i].Error()); ok && err.IsNoScript() {
			missing = append(missing, i)
			commands = append(commands, r.commandWithText(c))
		}
	}
	if missing == nil {
		return results
	}
	for i, r := range c.DoMulti(ctx, commands...) {
		results[missing[i]] = r
	}
	return results
}

// names makes the names of Redis keys. They do not reveal what a client sent, nor its address;
// with a salt, these cannot be found by trying either.
//
// A name is the prefix, one letter for what it is, and a hash. The part in braces decides the
// slot of a cluster: keys that are used together are in one.
type names struct{ prefix, salt string }

// bucket names the bucket that an actor has for a limit.
func (n names) bucket(limit, actor string) string {
	return n.prefix + "b{" + encoded(n.hash("b", limit, actor)) + "}"
}

// account names the account of a key, and says which of so many shards it is in.
func (n names) account(k limiter.Key, shards int) (name string, shard int) {
	h := n.hash("a", k.Class, k.ID)
	shard = int(h[len(h)-1]) % shards
	return n.prefix + "a{" + strconv.Itoa(shard) + "}" + encoded(h), shard
}

// log names the log of a shard.
func (n names) log(shard int) string { return n.prefix + "l{" + strconv.Itoa(shard) + "}" }

// packets names the log of packets.
func (n names) packets() string { return n.prefix + "t{0}" }

// hash covers all parts. Each is hashed with its length, so no two lists of parts become the
// same when joined.
func (n names) hash(parts ...string) [sha256.Size]byte {
	buffer := make([]byte, 0, 256)
	buffer = append(binary.AppendUvarint(buffer, uint64(len(n.salt))), n.salt...)
	for _, part := range parts {
		buffer = append(binary.AppendUvarint(buffer, uint64(len(part))), part...)
	}
	return sha256.Sum256(buffer)
}

// encoded writes 128 bits of a hash.
func encoded(h [sha256.Size]byte) string { return base64.RawURLEncoding.EncodeToString(h[:16]) }
