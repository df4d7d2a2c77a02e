package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/limiter/quota"
)

var ctx = context.Background()

func TestNamesShareNothing(t *testing.T) {
	n := names{prefix: "p:"}
	seen := map[string]string{}
	for _, pair := range [][2]string{{"c", "a_b"}, {"b_c", "a"}, {"ca_b", ""}, {"", "ca_b"}, {"c", ""}} {
		account := n.account(limiter.Key{Class: pair[0], ID: pair[1]})
		for _, name := range []string{n.bucket(pair[0], pair[1]), account} {
			if was, ok := seen[name]; ok {
				t.Errorf("%q and %s have the name %s", pair, was, name)
			}
			seen[name] = fmt.Sprint(pair)
		}
	}
	if (names{salt: "s"}).bucket("b", "x") == (names{}).bucket("b", "x") {
		t.Error("a salt doesn't change the name")
	}
	if name := n.bucket("login", "203.0.113.7"); strings.Contains(name, "203") || strings.Contains(name, "login") {
		t.Errorf("%s is readable in the name", name)
	}
}

// TestUnits: a request that doesn't fit is blocked completely. A request for more than the bucket's size passes
// if the bucket is empty, and is charged in full.
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
		t.Errorf("the bucket expires in %d ms (%v), before it is empty", left, err)
	}
}

// TestOneRoundTrip counts the commands that a check takes, even after Redis has forgotten the script.
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
	testkit.Same(t, 100, calls(t, s, "evalsha"), "calls of the script in 100 checks")
	testkit.Same(t, 0, calls(t, s, "eval"), "times that the script was sent")
	must(t, direct.Do(ctx, direct.B().Arbitrary("SCRIPT", "FLUSH").Build()))
	check(3)
	testkit.Same(t, 1, calls(t, s, "eval"), "times that the script was sent after Redis had forgotten it")
	if got := c.State(); !got.Connected || got.RoundTrips != 104 || got.Failures != 0 {
		t.Errorf("%+v", got)
	}
}

// calls returns how often a server has received a command.
func calls(t testing.TB, s *server, command string) (n int64) {
	t.Helper()
	c := s.direct()
	info, err := c.Do(ctx, c.B().Info().Section("commandstats").Build()).ToString()
	testkit.Must(t, err)
	for line := range strings.SplitSeq(info, "\r\n") {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+command+":calls="); ok {
			fmt.Sscan(strings.Split(rest, ",")[0], &n)
		}
	}
	return n
}

// TestOneDrip makes two processes check a full bucket at the moment of a drip, many times. Each time, one
// request passes, and the bucket has dripped once.
func TestOneDrip(t *testing.T) {
	s := startServer(t)
	direct := s.direct()
	b := quota.Bucket{Size: 5, DripRate: 1000, DripSize: 2}
	o := s.options()
	sidecars := [2]*Checker{checker(t, o), checker(t, o)}
	for round := range 200 {
		key := "drip" + strconv.Itoa(round)
		must(t, direct.Do(context.Background(), direct.B().Arbitrary("HSET", key, "c", "6", "t", "1000000").Build()))
		var passed atomic.Int64
		var wg sync.WaitGroup
		for _, c := range sidecars {
			wg.Go(func() {
				info, err := c.check(context.Background(), key, b, 1, 1001500)
				if err != nil {
					t.Error(err)
				} else if !info.Blocked {
					passed.Add(1)
				}
			})
		}
		wg.Wait()
		got, err := direct.Do(context.Background(), direct.B().Hmget().Key(key).Field("c", "t").Build()).AsStrSlice()
		testkit.Must(t, err)
		if want := "5 1001000"; strings.Join(got, " ") != want || passed.Load() != 1 {
			t.Fatalf("round %d: %v, %d passed; want %s, 1 passed", round, got, passed.Load(), want)
		}
	}
}
