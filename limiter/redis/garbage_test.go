package redis

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/limiter/quota"
)

// TestGarbage: whatever Redis contains instead of accounts, logs and buckets, instances keep working, and no
// client owes anything because of it.
func TestGarbage(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	o := s.options()
	cars := [2]*sidecar{startSidecar(t, o), startSidecar(t, o)}
	linked(t, cars[0], cars[1])
	direct := s.direct()
	do := func(command ...string) { must(t, direct.Do(ctx, direct.B().Arbitrary(command...).Build())) }
	n := cars[0].sharer.names
	until := fmt.Sprint(time.Now().Add(time.Hour).UnixMicro())
	sealed := newSeal("another").close(client("victim"))
	for _, fields := range [][]string{
		{"k", "x", "u", "1"}, {"k", sealed, "u", until}, {"u", until}, {"a", "b"},
		{"k", cars[0].sharer.seal.close(client("victim")), "u", "soon"},
		{"k", cars[0].sharer.seal.close(client("victim")), "u", "-99999999999999999999999"},
	} {
		do(append([]string{"XADD", n.log(), "*"}, fields...)...)
	}
	account := n.account(client("odd"))
	do("SET", account, "not a number")
	linked(t, cars[0], cars[1])
	cars[0].charge("odd", 3*time.Second)
	testkit.Eventually(t, "the account is repaired", func() bool { return cars[1].level("odd") < 0 })
	testkit.Same(t, testBurst, cars[1].level("victim"), "the victim's level")
	do("DEL", account)
	do("LPUSH", account, "a list")
	dropped := cars[0].sharer.State().Dropped
	now := time.Now()
	cars[0].sharer.Offer(limiter.Charge{Key: client("odd"), Cost: time.Second, At: now})
	testkit.Eventually(t, "a charge fails", func() bool { return cars[0].sharer.State().Dropped > dropped })
	linked(t, cars[1], cars[0])
	do("DEL", n.log())
	do("SET", n.log(), "no log")
	cars[0].charge("other", 3*time.Second)
	testkit.Eventually(t, "the Sharer reports a log of the wrong type", func() bool { return strings.Contains(cars[1].sharer.State().LastError, "WRONGTYPE") })
	do("DEL", n.log())
	linked(t, cars[0], cars[1])

	c := checker(t, o)
	b := quota.Bucket{Size: 2, DripRate: 1000, DripSize: 1}
	do("HSET", c.names.bucket("limit", "actor"), "c", "many")
	if _, err := c.Check(ctx, time.Time{}, "actor", "limit", b, 1); !isReply(err) {
		t.Errorf("a check of garbage: %v", err)
	}
	if got := c.State(); !got.Connected || got.LastError == "" {
		t.Errorf("%+v", got)
	}
}

// isReply reports whether Redis itself returned the error.
func isReply(err error) bool {
	_, ok := errors.AsType[*rueidis.RedisError](err)
	return ok
}

// TestGarbageExpires: if a value isn't a bucket, the check fails. The value expires no later than a bucket
// would, however often it is checked.
func TestGarbageExpires(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	direct := s.direct()
	b := quota.Bucket{Size: 2, DripRate: 1000, DripSize: 1}
	o := s.options()
	c := checker(t, o)
	for _, garbage := range [][]string{
		{"HSET", "", "c", "many"}, {"HSET", "", "c", "1.5"}, {"HSET", "", "c", "nan"}, {"HSET", "", "c", ""},
		{"HSET", "", "c", "1", "t", "yesterday"}, {"SET", "", "1"}, {"LPUSH", "", "1"},
	} {
		key := "bucket"
		garbage[1] = key
		must(t, direct.Do(ctx, direct.B().Arbitrary("DEL", key).Build()))
		must(t, direct.Do(ctx, direct.B().Arbitrary(garbage...).Build()))
		if _, err := c.check(ctx, key, b, 1, serverClock); !isReply(err) {
			t.Errorf("%q: %v", garbage, err)
		}
		left := func() int64 {
			ms, err := direct.Do(ctx, direct.B().Pttl().Key(key).Build()).AsInt64()
			testkit.Must(t, err)
			return ms
		}
		if ms := left(); ms <= 0 || ms > b.Lifetime(1) {
			t.Errorf("%q expires in %d ms, want at most %d", garbage, ms, b.Lifetime(1))
		}
		must(t, direct.Do(ctx, direct.B().Pexpire().Key(key).Milliseconds(500).Build()))
		_, _ = c.check(ctx, key, b, 1, serverClock)
		if ms := left(); ms > 500 {
			t.Errorf("%q: another check extended its expiry to %d ms", garbage, ms)
		}
	}
}

// TestAnotherLog: a log that can't be the one that was read before is read from the beginning.
func TestAnotherLog(t *testing.T) {
	h := log{cursor: "1000000-0"}
	if h.lost(999_000_000) || !h.lost(990_000_000) {
		t.Error("only a log from the future may count as another one")
	}
	if h.cursor = "x"; !h.lost(1) {
		t.Error("an invalid cursor was accepted")
	}
	if h.cursor = "1000000-9"; h.from() != "1000000-10" {
		t.Errorf("reading continues from %s", h.from())
	}
	if h.cursor = ""; h.lost(1) || h.from() != "-" {
		t.Error("a log that hasn't been read counts as lost")
	}
}
