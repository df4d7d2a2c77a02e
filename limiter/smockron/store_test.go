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

// at is a master at work, with a store.
type at struct {
	*master.Master
	end func()
}

func startMaster(t *testing.T, a smockron.Addresses, redis string) *at {
	t.Helper()
	m := &at{Master: master.New(master.Settings{Domains: []master.Domain{
		{Name: "foo", Rules: []master.Rule{{Interval: time.Second, Burst: 10 * time.Second}}},
		{Name: "cpu", Rules: []master.Rule{{Kind: master.Credit, CPUs: 0.1, Burst: time.Second}}},
	}})}
	options := master.ServeOptions{Addresses: a, Now: time.Now}
	var store *master.RedisStore
	if redis != "" {
		var err error
		if store, err = master.OpenRedisStore("redis://" + redis); err != nil {
			t.Fatal(err)
		}
		options.Store = store
	}
	end := serve(t, m.Master, options)
	m.end = func() {
		end()
		if store != nil {
			store.Close()
		}
		m.end = func() {}
	}
	t.Cleanup(func() { m.end() })
	return m
}

// sidecar is a limiter with a gatekeeper at work.
type sidecar struct {
	*limiter.Limiter
	*smockron.Gatekeeper
}

func startSidecar(t *testing.T, a smockron.Addresses) *sidecar {
	t.Helper()
	g := smockron.NewGatekeeper(smockron.GatekeeperOptions{Now: time.Now, Routes: []smockron.Route{
		{Domain: "foo", Class: "foo", Master: a, Requests: true},
		{Domain: "cpu", Class: "slash32", Master: a},
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

func (s *sidecar) owes(class, id string) float64 {
	r, _ := s.Find(time.Now(), limiter.Key{Class: class, ID: id})
	return max(0, -r.Level)
}

func (s *sidecar) spend(id string, cost time.Duration) {
	t := s.Arrive(time.Now(), limiter.Arrival{Client: limiter.Key{Class: "slash32", ID: id}, Others: []limiter.Key{{Class: "foo", ID: id}}})
	s.Settle(time.Now(), t, cost)
	s.Leave(time.Now(), t)
}

// TestMasterCarriesOn: a master that is killed and started anew goes on where the
// first one stopped, by what Redis kept, and sidecars that know nothing learn it.
func TestMasterCarriesOn(t *testing.T) {
	redis := testkit.StartRedis(t)
	a := freeAddresses(t)
	first := startMaster(t, a, redis.Address)
	old := startSidecar(t, a)
	testkit.Eventually(t, "connected", old.connected)
	for range 15 {
		old.spend("greedy", 900*time.Millisecond)
	}
	testkit.Eventually(t, "throttled", func() bool { return old.owes("foo", "greedy") > 3 && old.owes("slash32", "greedy") > 0.05 })
	testkit.Eventually(t, "saved", func() bool { return first.State().Unsaved == 0 })
	first.end()

	second := startMaster(t, a, redis.Address)
	fresh := startSidecar(t, a)
	testkit.Eventually(t, "throttled again", func() bool { return fresh.owes("foo", "greedy") > 1 && fresh.owes("slash32", "greedy") > 0.01 })
	testkit.Eventually(t, "the old one is back", old.connected)
	testkit.Eventually(t, "the fresh one is connected, too", fresh.connected) // who is not tells nothing
	before := second.State().Domains[1].Counts
	testkit.Eventually(t, "the new master goes on counting", func() bool {
		fresh.spend("greedy", time.Millisecond) // one message may be lost
		return second.State().Domains[1].Counts != before
	})
}

// TestSecondMasterFetches: a master that was running all along asks for those whom
// another one knew.
func TestSecondMasterFetches(t *testing.T) {
	redis := testkit.StartRedis(t)
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis.Address}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a := freeAddresses(t)
	startMaster(t, a, redis.Address)
	s := startSidecar(t, a)
	testkit.Eventually(t, "connected", s.connected)
	// What the first master of all would have left there.
	until := time.Now().Add(4 * time.Second).UnixMilli()
	key := "throttle;foo;greedy"
	if err := c.Do(context.Background(), c.B().Set().Key(key).Value(fmt.Sprint(until)).Px(time.Minute).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	s.spend("greedy", 0)
	testkit.Eventually(t, "throttled by what the other one knew", func() bool { return s.owes("foo", "greedy") > 2 })
}

// TestRedisAway: without its store the master works from memory, and saves what
// changed meanwhile when the store is back.
func TestRedisAway(t *testing.T) {
	redis := testkit.StartRedis(t)
	a := freeAddresses(t)
	m := startMaster(t, a, redis.Address)
	s := startSidecar(t, a)
	testkit.Eventually(t, "connected", s.connected)
	redis.Kill()
	for range 15 {
		s.spend("greedy", 0)
	}
	testkit.Eventually(t, "throttled without the store", func() bool { return s.owes("foo", "greedy") > 3 })
	if n := m.State().Unsaved; n > 2 {
		t.Errorf("%d identifiers wait to be saved, want 2: it is to be no queue", n)
	}
	redis.Start()
	testkit.Eventually(t, "saved", func() bool { return m.State().Unsaved == 0 })
}
