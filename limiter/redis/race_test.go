package redis

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/limiter/quota"
)

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
