package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"tempomat/limiter/quota"
)

// checkScript is quota.Bucket.Take where the data is, so that check and charge are one
// step. It answers: blocked, counter, stamp, now. A check that changes nothing
// writes nothing. What is no bucket it answers with an error, and gives it the life
// of one if it had none: for its actor nothing is limited until it is gone.
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

// What may be wrong with an answer.
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

// NewChecker makes a Checker. It opens nothing: the first check connects. The
// error is what is wrong with the options.
func NewChecker(o Options) (*Checker, error) {
	l, err := newLink(o)
	if err != nil {
		return nil, err
	}
	return &Checker{link: l, names: l.options.names(), script: rueidis.NewLuaScript(checkScript)}, nil
}

// Check implements quota.Store by the server's clock. It takes one round trip, and at
// most the timeout of the options; ErrAway comes at once. For the zero Bucket it asks
// nobody.
func (c *Checker) Check(ctx context.Context, _ time.Time, actor, name string, b quota.Bucket, units int64) (quota.Status, error) {
	if !b.Limits() {
		return b.Status(quota.BucketState{}, 0, 0, false), nil
	}
	return c.check(ctx, c.names.bucket(name, actor), b, units, serverClock)
}

// serverClock is given in place of a time to use that of the server.
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

// State tells how the Checker fares.
func (c *Checker) State() State { return c.link.state() }

// Close ends the connection. Checks after it fail.
func (c *Checker) Close() { c.link.close() }
