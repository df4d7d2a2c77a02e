//go:build cgo

package smockron_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/limiter/smockron"
	"tempomat/limiter/smockron/master"
)

// startMaster runs a master with a store until the test ends.
func startMaster(t *testing.T, a smockron.Addresses, redis string) *master.Master {
	t.Helper()
	store, err := master.OpenStore("redis://" + redis)
	testkit.Must(t, err)
	t.Cleanup(store.Close)
	m := master.New(master.Settings{Domains: []master.Domain{
		{Name: "foo", Rules: []master.Rule{{Interval: time.Second, Burst: 10 * time.Second}}},
	}})
	serve(t, m, master.ServeOptions{Addresses: a, Now: time.Now, Store: store})
	return m
}

// sidecar is a limiter with a running gatekeeper.
type sidecar struct {
	*limiter.Limiter
	*smockron.Gatekeeper
}

func startSidecar(t *testing.T, a smockron.Addresses) *sidecar {
	t.Helper()
	g := smockron.NewGatekeeper(smockron.GatekeeperOptions{Now: time.Now, Routes: []smockron.Route{
		{Domain: "foo", Class: "foo", Master: a, Requests: true},
	}})
	l := limiter.New(time.Now(), limiter.Policy{
		Mode: limiter.Cap, MaxHold: time.Minute, MaxHeld: 1000,
		Classes: []limiter.ClassInfo{
			{Name: "slash32", Budget: limiter.Budget{CPUs: 0.1, Burst: time.Second}},
			{Name: "foo", Budget: limiter.Budget{External: true, MaxHold: 5 * time.Second}},
		},
	}, 1<<10, g)
	runGatekeeper(t, g, l)
	return &sidecar{l, g}
}

func (s *sidecar) connected() bool {
	l := s.State()[0]
	return l.Present && l.Synced
}

func (s *sidecar) owes(id string) float64 {
	r, _ := s.Find(time.Now(), limiter.Key{Class: "foo", ID: id})
	return max(0, -r.Level)
}

func (s *sidecar) spend(id string) {
	t := s.Arrive(time.Now(), limiter.Arrival{Client: limiter.Key{Class: "slash32", ID: id}, Others: []limiter.Key{{Class: "foo", ID: id}}})
	s.Settle(time.Now(), t, 0)
	s.Leave(time.Now(), t)
}

// TestSecondMasterFetches: a master that keeps running fetches the states that another master has saved.
func TestSecondMasterFetches(t *testing.T) {
	redis := testkit.StartRedis(t)
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis.Address}, DisableCache: true})
	testkit.Must(t, err)
	defer c.Close()
	a := freeAddresses(t)
	startMaster(t, a, redis.Address)
	s := startSidecar(t, a)
	testkit.Eventually(t, "connected", s.connected)
	// This is the value that the first Smockron master would have left there.
	until := time.Now().Add(4 * time.Second).UnixMilli()
	key := "throttle;foo;greedy"
	testkit.Must(t, c.Do(context.Background(), c.B().Set().Key(key).Value(fmt.Sprint(until)).Px(time.Minute).Build()).Error())
	s.spend("greedy")
	testkit.Eventually(t, "the client is throttled because of the other master's state", func() bool { return s.owes("greedy") > 2 })
}

// TestRedisAway: while the store can't be reached, the master works from memory. When the store is back, the
// master saves the changes.
func TestRedisAway(t *testing.T) {
	redis := testkit.StartRedis(t)
	a := freeAddresses(t)
	m := startMaster(t, a, redis.Address)
	s := startSidecar(t, a)
	testkit.Eventually(t, "connected", s.connected)
	redis.Kill()
	for range 15 {
		s.spend("greedy")
	}
	testkit.Eventually(t, "the client is throttled without the store", func() bool { return s.owes("greedy") > 3 })
	if n := m.State().Unsaved; n > 2 {
		t.Errorf("%d identifiers wait to be saved, want 2, because changes may not queue up", n)
	}
	redis.Start()
	testkit.Eventually(t, "saved", func() bool { return m.State().Unsaved == 0 })
}
