package redis

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"tempomat/limiter/quota"
)

// checkWithTransactions makes a check without a script, by transactions that add and take
// away, and that are undone by their inverse if somebody else came between: one
// that reads, one that drips if a drip is due, one that puts the units in if they
// have room. If it drips while another sidecar drips the same, one of them takes
// its drip back; if two put their units in where there is room for one, so does
// who came second.
func checkWithTransactions(ctx context.Context, client rueidis.Client, key string, b quota.Bucket, units, now int64) (status quota.Status, err error) {
	err = client.Dedicated(func(c rueidis.DedicatedClient) error {
		t := transaction{ctx: ctx, client: c, key: key, bucket: b, lifetime: b.Lifetime(units)}
		if err := t.read(&now); err != nil {
			t.expireGarbage(err)
			return err
		}
		if err := t.drip(now); err != nil {
			return err
		}
		blocked := b.Blocks(t.state, units)
		if !blocked {
			if blocked, err = t.add(now, units); err != nil {
				return err
			}
		}
		status = b.Status(t.state, now, units, blocked)
		return nil
	})
	if err != nil {
		return quota.Status{}, failed(err)
	}
	return status, nil
}

// transaction is a check under way.
type transaction struct {
	ctx      context.Context //nolint:containedctx // it lives as long as one call
	client   rueidis.DedicatedClient
	key      string
	bucket   quota.Bucket
	lifetime int64
	state    quota.BucketState // as far as it is known
}

// read finds out how the bucket stands, and the time if it is the server's.
func (t *transaction) read(now *int64) error {
	got, err := t.exec(t.client.B().Time().Build(), t.get())
	if err != nil {
		return err
	}
	if *now == serverClock {
		if *now, err = unixMilli(got[0]); err != nil {
			return err
		}
	}
	t.state, err = readState(got[1])
	return err
}

// drip takes out what has dripped, unless somebody else did.
func (t *transaction) drip(now int64) error {
	drips := t.bucket.Due(t.state, now)
	if drips == 0 {
		return nil
	}
	units, step := t.bucket.Dripped(t.state, drips), drips*t.bucket.DripRate
	got, err := t.exec(t.get(), t.incr("t", step), t.incr("c", -units), t.expire(), t.get())
	if err != nil {
		return err
	}
	found, err := readState(got[0])
	if err != nil {
		return err
	}
	expected := t.state.Stamp
	if found.Stamp != expected {
		if got, err = t.exec(t.incr("t", -step), t.incr("c", units), t.get()); err != nil {
			return err
		}
	}
	t.state, err = readState(got[len(got)-1])
	return err
}

// add puts the units in. If they turn out to have no room, as others were put in
// since the bucket was read, it takes them back.
func (t *transaction) add(now, units int64) (blocked bool, err error) {
	commands := []rueidis.Completed{t.get(), t.incr("c", units), t.expire(), t.get()}
	if t.state.Stamp == 0 {
		// Otherwise the first request would drip away at once. Two who do so differ by
		// a moment.
		commands[0] = t.client.B().Hset().Key(t.key).FieldValue().FieldValue("t", strconv.FormatInt(now, 10)).Build()
	}
	got, err := t.exec(commands...)
	if err != nil {
		return false, err
	}
	if t.state, err = readState(got[len(got)-1]); err != nil {
		return false, err
	}
	if before := (quota.BucketState{Counter: t.state.Counter - units}); t.bucket.Blocks(before, units) {
		if got, err = t.exec(t.incr("c", -units), t.get()); err != nil {
			return false, err
		}
		t.state, err = readState(got[1])
		return true, err
	}
	if missing := -t.state.Counter; missing > 0 { // more was taken out than there was
		if got, err = t.exec(t.incr("c", missing), t.get()); err == nil {
			t.state, err = readState(got[1])
		}
	}
	return false, err
}

// exec runs commands as one transaction and returns their answers.
func (t *transaction) exec(commands ...rueidis.Completed) ([]rueidis.RedisMessage, error) {
	all := append([]rueidis.Completed{t.client.B().Multi().Build()}, commands...)
	all = append(all, t.client.B().Exec().Build())
	answers := t.client.DoMulti(t.ctx, all...)
	got, err := answers[len(answers)-1].ToArray()
	if err != nil {
		return nil, err
	}
	if len(got) != len(commands) {
		return nil, errGarbage
	}
	for _, m := range got {
		if err := m.Error(); err != nil {
			return nil, err
		}
	}
	return got, nil
}

func (t *transaction) get() rueidis.Completed {
	return t.client.B().Hmget().Key(t.key).Field("c", "t").Build()
}

func (t *transaction) incr(field string, n int64) rueidis.Completed {
	return t.client.B().Hincrby().Key(t.key).Field(field).Increment(n).Build()
}

func (t *transaction) expire() rueidis.Completed {
	return t.client.B().Pexpire().Key(t.key).Milliseconds(t.lifetime).Build()
}

// expireGarbage gives what turned out to be no bucket the life of one, unless its
// end is near already. It fails in silence: the check has.
func (t *transaction) expireGarbage(why error) {
	if _, ok := errors.AsType[*rueidis.RedisError](why); !ok && !errors.Is(why, errNotInteger) {
		return
	}
	const never = -1
	left, err := t.client.Do(t.ctx, t.client.B().Pttl().Key(t.key).Build()).AsInt64()
	if err == nil && left == never {
		_ = t.client.Do(t.ctx, t.expire()).Error()
	}
}

// readState reads the answer to get. What is not there is 0.
func readState(m rueidis.RedisMessage) (quota.BucketState, error) {
	values, err := m.ToArray()
	if err != nil || len(values) != 2 {
		return quota.BucketState{}, errGarbage
	}
	var got [2]int64
	for i := range values {
		if values[i].IsNil() {
			continue
		}
		if got[i], err = values[i].AsInt64(); err != nil {
			return quota.BucketState{}, errNotInteger
		}
	}
	return quota.BucketState{Counter: got[0], Stamp: got[1]}, nil
}

// unixMilli reads the answer to TIME.
func unixMilli(m rueidis.RedisMessage) (int64, error) {
	clock, err := m.AsIntSlice()
	if err != nil || len(clock) != 2 {
		return 0, errGarbage
	}
	return time.Unix(clock[0], clock[1]*1000).UnixMilli(), nil
}
