package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/limiter"
	"tempomat/limiter/quota"
)

var ctx = context.Background()

func drawBucket(t *rapid.T) quota.Bucket {
	return quota.Bucket{
		Size:     rapid.Int64Range(1, 20).Draw(t, "size"),
		DripRate: rapid.Int64Range(1, 3000).Draw(t, "rate"),
		DripSize: rapid.Int64Range(1, 8).Draw(t, "drip"),
	}
}

// TestAsTheArithmeticSays: the script's results are those of the bucket's arithmetic.
func TestAsTheArithmeticSays(t *testing.T) {
	s := startServer(t)
	script := checker(t, s.options())
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		b := drawBucket(t)
		b.DripRate += 2000 // so that nothing expires meanwhile
		var kept quota.BucketState
		now := rapid.Int64Range(1, 1<<41).Draw(t, "start")
		for range rapid.IntRange(1, 12).Draw(t, "checks") {
			now += rapid.Int64Range(0, b.DripRate*3).Draw(t, "step")
			units := rapid.SampledFrom([]int64{1, 2, 3, -1}).Draw(t, "units")
			one, err := script.check(ctx, fmt.Sprint("script", n), b, units, now)
			if err != nil {
				t.Fatal(err)
			}
			after, blocked := b.Take(kept, now, units)
			if want := b.Status(after, now, units, blocked); one != want {
				t.Fatalf("script %+v, arithmetic %+v", one, want)
			}
			kept = after
			if one.Remaining < 0 || one.Remaining > b.Size || one.Reset < 0 {
				t.Fatalf("%+v of %+v", one, b)
			}
		}
	})
}

func TestNamesShareNothing(t *testing.T) {
	n := names{prefix: "p:"}
	seen := map[string]string{}
	for _, pair := range [][2]string{{"c", "a_b"}, {"b_c", "a"}, {"ca_b", ""}, {"", "ca_b"}, {"c", ""}} {
		account, shard := n.account(limiter.Key{Class: pair[0], ID: pair[1]}, 16)
		for _, name := range []string{n.bucket(pair[0], pair[1]), account} {
			if was, ok := seen[name]; ok {
				t.Errorf("%q and %s have the name %s", pair, was, name)
			}
			seen[name] = fmt.Sprint(pair)
		}
		if !strings.Contains(account, fmt.Sprintf("{%d}", shard)) || !strings.Contains(n.log(shard), fmt.Sprintf("{%d}", shard)) {
			t.Errorf("%s and %s are not in one slot", account, n.log(shard))
		}
	}
	if (names{salt: "s"}).bucket("b", "x") == (names{}).bucket("b", "x") {
		t.Error("a salt changes nothing")
	}
	if name := n.bucket("login", "203.0.113.7"); strings.Contains(name, "203") || strings.Contains(name, "login") {
		t.Errorf("%s can be read", name)
	}
}

// TestNamesInRedis is the pair of actors that shared a bucket elsewhere.
func TestNamesInRedis(t *testing.T) {
	s := startServer(t)
	c := checker(t, s.options())
	b := quota.Bucket{Size: 1, DripRate: 10_000, DripSize: 1}
	for _, pair := range [][2]string{{"a_b", "c"}, {"a", "b_c"}} {
		if info, err := c.Check(ctx, time.Time{}, pair[0], pair[1], b, 1); err != nil || info.Blocked {
			t.Errorf("%q: %+v, %v", pair, info, err)
		}
	}
	if info, err := c.Check(ctx, time.Time{}, "a", "b_c", b, 1); err != nil || !info.Blocked || info.Reset > 10*time.Second || info.Reset < 5*time.Second {
		t.Errorf("%+v, %v", info, err)
	}
	if got := c.State(); !got.Connected || got.RoundTrips != 3 || got.Failures != 0 || got.LastContact.IsZero() {
		t.Errorf("%+v", got)
	}
}

// TestUnits: more than fits is blocked whole, and more than a bucket ever holds
// passes when it is empty and is charged in full.
func TestUnits(t *testing.T) {
	s := startServer(t)
	o := s.options()
	c := checker(t, o)
	key := "units"
	b := quota.Bucket{Size: 10, DripRate: 1000, DripSize: 1}
	status := func(blocked bool, remaining int64, reset, full time.Duration) quota.Status {
		return quota.Status{Blocked: blocked, Remaining: remaining, Reset: reset, FullReset: full}
	}
	for i, step := range []struct {
		at, units int64
		want      quota.Status
	}{
		{1000, 7, status(false, 3, 4*time.Second, 7*time.Second)},
		{1000, 4, status(true, 3, time.Second, 7*time.Second)},
		{1000, 3, status(false, 0, 3*time.Second, 10*time.Second)},
		{11000, 25, status(false, 0, 25*time.Second, 25*time.Second)},
		{11000, 1, status(true, 0, 16*time.Second, 25*time.Second)},
	} {
		if got, err := c.check(ctx, key, b, step.units, step.at); err != nil || got != step.want {
			t.Errorf("%d: %+v, %v; want %+v", i, got, err, step.want)
		}
	}
	direct := s.direct()
	if left, err := direct.Do(ctx, direct.B().Pttl().Key(key).Build()).AsInt64(); err != nil || left < 24_000 {
		t.Errorf("it expires in %d ms (%v), before it is empty", left, err)
	}
}

// TestOneRoundTrip counts the commands that a check by the script takes, also
// after Redis forgot the script.
func TestOneRoundTrip(t *testing.T) {
	s := startServer(t)
	c := checker(t, s.options())
	direct := s.direct()
	b := quota.Bucket{Size: 1000, DripRate: 1000, DripSize: 1}
	check := func(n int) {
		for range n {
			if _, err := c.Check(ctx, time.Time{}, "a", "b", b, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	check(1)
	must(t, direct.Do(ctx, direct.B().Arbitrary("CONFIG", "RESETSTAT").Build()))
	check(100)
	if got := calls(t, s, "evalsha"); got != 100 {
		t.Errorf("%d scripts for 100 checks", got)
	}
	if got := calls(t, s, "eval"); got != 0 {
		t.Errorf("the script was sent %d times", got)
	}
	must(t, direct.Do(ctx, direct.B().Arbitrary("SCRIPT", "FLUSH").Build()))
	check(3)
	if got := calls(t, s, "eval"); got != 1 {
		t.Errorf("the script was sent %d times after it was lost", got)
	}
}

// calls tells how often a server was sent a command.
func calls(t testing.TB, s *server, command string) (n int64) {
	t.Helper()
	c := s.direct()
	info, err := c.Do(ctx, c.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(info, "\r\n") {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			fmt.Sscan(strings.Split(rest, ",")[0], &n)
		}
	}
	return n
}
