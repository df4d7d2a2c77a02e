package redis

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"tempomat/limiter"
	"tempomat/limiter/quota"
)

// TestMemory measures what a client takes in Redis: a bucket, an account, and
// beside them the two keys of the service whose limits these are.
func TestMemory(t *testing.T) {
	const clients = 8000
	s := startServer(t)
	direct := s.direct()
	used := func() int64 {
		n, err := strconv.ParseInt(s.Info("memory")["used_memory"], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	keys := func() int64 {
		n, _ := direct.Do(ctx, direct.B().Dbsize().Build()).AsInt64()
		return n
	}
	measure := func(what string, per int64, fill func(i int)) (each int64) {
		must(t, direct.Do(ctx, direct.B().Flushall().Build()))
		fill(clients) // what is there only once
		before := used()
		for i := range clients {
			fill(i)
		}
		each = (used() - before) / clients
		if got := keys(); got < clients*per {
			t.Errorf("%s: %d keys", what, got)
		}
		t.Logf("%s: %d bytes for each client", what, each)
		return each
	}
	two := measure("the original's two keys", 2, func(i int) {
		for _, part := range []string{"c", "t"} {
			name := fmt.Sprintf("rl_203.0.113.%d_notes/create_%s", i, part)
			must(t, direct.Do(ctx, direct.B().Set().Key(name).Value(fmt.Sprint(1_700_000_000_000+i)).ExSeconds(1000).Build()))
		}
	})
	c := checker(t, s.options())
	bucket := measure("a bucket", 1, func(i int) {
		if _, err := c.Check(ctx, time.Time{}, fmt.Sprintf("203.0.113.%d", i), "notes/create", quota.Bucket{Size: 1000, DripRate: 1000, DripSize: 1}, 1); err != nil {
			t.Fatal(err)
		}
	})
	charge := newScript(chargeScript)
	account := measure("an account", 1, func(i int) {
		name, _ := c.names.account(limiter.Key{Class: "slash32", ID: fmt.Sprintf("203.0.113.%d", i)}, 1)
		r := run{charge, []string{name, c.names.log(0)}, []string{"1000000000", "100000000", "2000000000", "0", "", "100", "0"}}
		for _, result := range pipeline(ctx, direct, []run{r}) {
			must(t, result)
		}
	})
	if bucket >= two || account >= two {
		t.Errorf("a bucket takes %d bytes and an account %d, the original's keys %d", bucket, account, two)
	}
}
