package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter"
	"tempomat/limiter/known"
)

// Fleet makes sharers that are connected with each other through one way of sharing.
type Fleet interface {
	// Join returns the sharer of one more instance. It isn't running yet.
	Join(t testing.TB) limiter.Sharer
	// Cut separates all instances from each other until Heal.
	Cut()
	Heal()
}

// These are the rate, the burst and the cost of requests in the test's fleets, in CPU-seconds.
const (
	fleetRate  = 0.5
	fleetBurst = 1.0
	fleetCost  = 0.02
)

// Sharers tests, in real time, the guarantees that every way of sharing must give. All instances together have
// one limit. A client's debt doesn't affect other clients. Instances that join learn the debts. An instance
// that is cut off works alone, with all its limits, and causes no wrong debts when it is connected again. open
// makes a fleet for the classes of a policy; the fleet ends with the test.
func Sharers(t *testing.T, open func(t *testing.T, p limiter.Policy) Fleet) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, *fleet)
	}{
		{"one limit for all", oneLimitForAll},
		{"an instance that joins learns the debts", aNewcomerLearns},
		{"alone when cut off", aloneWhenCutOff},
		{"a full outbox delays no request", aFullOutbox},
		{"all instances learn known clients", whoIsKnown},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := limiter.Policy{
				Mode: limiter.Cap, MaxHold: time.Minute, MaxHeld: 1000,
				Classes: []limiter.ClassInfo{{Name: "slash32", Budget: limiter.Budget{
					CPUs: fleetRate, Burst: time.Duration(fleetBurst * float64(time.Second)),
				}}},
			}
			c.test(t, &fleet{Fleet: open(t, p), policy: p})
		})
	}
}

// fleet is a fleet of running instances.
type fleet struct {
	Fleet
	policy limiter.Policy
}

// sidecar is an instance of the fleet: a limiter with its running sharer.
type sidecar struct {
	*limiter.Limiter
	sharer   limiter.Sharer
	exchange *known.Exchange
	began    time.Time
}

func clientKey(id string) limiter.Key { return limiter.Key{Class: "slash32", ID: id} }

// start runs one more instance until the test ends.
func (f *fleet) start(t *testing.T) *sidecar { return f.startWith(t, 1) }

// startWith runs an instance with the given secret.
func (f *fleet) startWith(t *testing.T, secret byte) *sidecar {
	s := f.Join(t)
	began := time.Now()
	car := &sidecar{limiter.New(began, f.policy, 1<<12, s), s, known.NewExchange(), began}
	car.Known().Share(car.exchange, [16]byte{1}) // instances with different secrets differ only in their packets
	car.exchange.SetKeys([32]byte{secret}, [32]byte{secret})
	car.exchange.Ask(time.Now())
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx, car); err != nil && ctx.Err() == nil {
			t.Errorf("the Sharer stopped: %v", err)
		}
	})
	running.Go(func() { car.drive(ctx) })
	t.Cleanup(func() {
		end()
		running.Wait()
	})
	return car
}

// drive does what a proxy does for its limiter.
func (s *sidecar) drive(ctx context.Context) {
	ticks, tells := time.NewTicker(time.Millisecond), time.NewTicker(known.PackEvery)
	defer ticks.Stop()
	defer tells.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tells.C:
			for _, p := range s.exchange.Pack(time.Now()) {
				s.sharer.Carry(p)
			}
		case <-ticks.C:
		case <-s.Due():
		}
		s.Advance(time.Now())
	}
}

// ask sends one request from a client and waits until the request has ended. It returns false if the request
// was refused or the context ended first.
func (s *sidecar) ask(ctx context.Context, client string, cost float64, takes time.Duration) bool {
	c := time.Duration(cost * float64(time.Second))
	t := s.Arrive(time.Now(), limiter.Arrival{Client: clientKey(client), Guess: c})
	defer func() { s.Leave(time.Now(), t) }()
	select {
	case <-t.Decided():
	case <-ctx.Done():
		return false
	}
	if t.Verdict().Refused() {
		return false
	}
	if takes > 0 {
		time.Sleep(takes)
	}
	s.Settle(time.Now(), t, c)
	return true
}

// level returns a client's balance in CPU-seconds, which is a full burst if the client isn't known.
func (s *sidecar) level(client string) float64 {
	if r, ok := s.Find(time.Now(), clientKey(client)); ok {
		return r.Level
	}
	return fleetBurst
}

// connected waits until all instances know a charge that was made at each of the others.
func (f *fleet) connected(t *testing.T, cars []*sidecar, name string) {
	t.Helper()
	for i, from := range cars {
		client, tries := fmt.Sprintf("%s-%d", name, i), 0
		testkit.Eventually(t, "all instances know the charge of instance "+client, func() bool {
			if tries++; tries%50 == 1 { // charges that were made before the instances were connected are lost
				from.Debit(time.Now(), limiter.Charge{Key: clientKey(client), Cost: 0})
				from.sharer.Offer(limiter.Charge{
					Key: clientKey(client), Cost: 5 * time.Second, At: time.Now(), Received: time.Now(), Until: time.Now(),
				})
			}
			for j, to := range cars {
				if i != j && to.level(client) >= 0 {
					return false
				}
			}
			return true
		})
	}
}

// oneLimitForAll makes one client use as much of three instances as it can.
func oneLimitForAll(t *testing.T, f *fleet) {
	const lasts = 8 * time.Second
	cars := []*sidecar{f.start(t), f.start(t), f.start(t)}
	f.connected(t, cars, "link")
	ctx, end := context.WithTimeout(context.Background(), lasts)
	defer end()
	began := time.Now()
	var mu sync.Mutex
	var spent float64
	var worst float64
	var clients sync.WaitGroup
	for _, car := range cars {
		for range 2 {
			clients.Go(func() {
				for car.ask(ctx, "greedy", fleetCost, 5*time.Millisecond) {
					mu.Lock()
					spent += fleetCost
					worst = max(worst, spent-fleetBurst-fleetRate*time.Since(began).Seconds())
					mu.Unlock()
				}
			})
		}
	}
	clients.Wait()
	allowed := fleetBurst + fleetRate*lasts.Seconds()
	t.Logf("one client at three instances used %.2f of the %.2f CPU-seconds that one instance allows; overshoot at most %.2f", spent, allowed, worst)
	// If bursts are divided, an instance has only its own part of the burst left after it has received the
	// charges of the others.
	least := fleetBurst/float64(len(cars)) + fleetRate*lasts.Seconds()
	if spent < 0.9*least || spent > 1.1*allowed {
		t.Errorf("the client got %.2f CPU-seconds, want %.2f to %.2f within a tenth", spent, least, allowed)
	}
	for i, car := range cars {
		if l := car.level("neighbour"); l != fleetBurst {
			t.Errorf("instance %d: a client that made no request has %v", i, l)
		}
	}
}

// aNewcomerLearns starts an instance when a client is already in debt.
func aNewcomerLearns(t *testing.T, f *fleet) {
	cars := []*sidecar{f.start(t), f.start(t)}
	f.connected(t, cars, "link")
	cars[0].ask(context.Background(), "debtor", 6, 0)
	testkit.Eventually(t, "the other instance knows the debt", func() bool { return cars[1].level("debtor") < 0 })
	late := f.start(t)
	testkit.Eventually(t, "the new instance knows the debt", func() bool {
		cars[0].Settle(time.Now(), cars[0].Arrive(time.Now(), limiter.Arrival{Client: clientKey("other")}), 0)
		return late.level("debtor") < 0
	})
	if l := late.level("debtor"); l < fleetBurst/3-6-0.1 {
		t.Errorf("at the new instance, the client owes more than it spent: %v", l)
	}
}

// aloneWhenCutOff cuts the fleet, lets one instance continue to serve, and heals the fleet.
func aloneWhenCutOff(t *testing.T, f *fleet) {
	cars := []*sidecar{f.start(t), f.start(t)}
	f.connected(t, cars, "link")
	f.Cut()
	now := context.Background()
	for i := range 200 {
		if !cars[0].ask(now, fmt.Sprintf("client-%d", i), fleetCost, 0) {
			t.Fatalf("request %d was refused although its client owed nothing", i)
		}
	}
	if !cars[1].ask(now, "spender", 3, 0) {
		t.Fatal("a client within its burst was refused")
	}
	if l := cars[1].level("spender"); l > fleetBurst-3+0.5 {
		t.Errorf("the instance that is cut off doesn't charge its clients: %v", l)
	}
	time.Sleep(500 * time.Millisecond) // time in which charges could queue, although they may not
	f.Heal()
	f.connected(t, cars, "again")
	least := fleetBurst / float64(len(cars)) // the way of sharing may divide bursts
	for i, car := range cars {
		if l := car.level("spender"); l < least-3-0.1 {
			t.Errorf("instance %d: the client owes more than it spent: %v", i, l)
		}
		for c := range 200 {
			if l := car.level(fmt.Sprintf("client-%d", c)); l < least-fleetCost-0.01 {
				t.Errorf("instance %d: client %d owes more than it spent: %v", i, c, l)
			}
		}
	}
}

// knows reports whether a client is known.
func (s *sidecar) knows(client string) bool {
	return s.Known().Has(time.Since(s.began), client)
}

// whoIsKnown makes clients known at some instances. All others must learn these clients, including an instance
// that starts later. An instance with another secret may neither learn from the others nor be trusted by them.
// Forged and replayed packets may have no effect.
func whoIsKnown(t *testing.T, f *fleet) {
	cars := []*sidecar{f.start(t), f.start(t), f.start(t)}
	stranger := f.startWith(t, 2)
	f.connected(t, cars, "link")
	f.connected(t, []*sidecar{cars[0], stranger}, "stranger")
	tell := func(by *sidecar, client string) {
		by.Known().Add(time.Since(by.began), client)
	}
	all := func(client string, cars ...*sidecar) time.Duration {
		return testkit.Eventually(t, client+" is known to all", func() bool {
			return !slices.ContainsFunc(cars, func(s *sidecar) bool { return !s.knows(client) })
		})
	}
	for i, by := range cars {
		tell(by, fmt.Sprint("client-", i))
		t.Logf("known at all instances after %v", all(fmt.Sprint("client-", i), cars...))
	}
	tell(stranger, "stranger")
	for range 100 { // packets of a sender that doesn't have the secret
		forged := known.NewExchange()
		forged.SetKeys([32]byte{3}, [32]byte{3})
		forged.Tell(known.Entry{Kind: known.OfClient, Hash: 1, At: time.Now().Unix()})
		for _, p := range append(forged.Pack(time.Now()), []byte("nonsense"), make([]byte, known.MostPacket)) {
			cars[0].sharer.Carry(p)
		}
	}
	testkit.Eventually(t, "packets with another secret are reported", func() bool {
		return cars[1].exchange.State().Foreign > 0 && cars[1].exchange.State().Forged > 0
	})
	late := f.start(t)
	all("client-0", append(cars, late)...)
	f.Cut()
	f.Heal()
	f.connected(t, append(cars, late), "again")
	tell(late, "later")
	for _, s := range append(cars, late) {
		s.exchange.Ask(time.Now())
	}
	all("later", append(cars, late)...)
	for i, s := range append(cars, late) {
		if s.knows("stranger") || s.knows("nobody") {
			t.Errorf("instance %d knows a client that no instance with its secret knows", i)
		}
	}
	if stranger.knows("client-0") {
		t.Error("an instance without the secret knows a client")
	}
}

// aFullOutbox offers more charges than any Sharer can queue while it sends none.
func aFullOutbox(t *testing.T, f *fleet) {
	s := f.Join(t) // the Sharer's Run isn't called
	dropped := 0
	for i := range 1_000_000 {
		now := time.Now()
		if !s.Offer(limiter.Charge{Key: clientKey(fmt.Sprint(i % 1000)), Cost: time.Millisecond, At: now, Received: now, Until: now}) {
			dropped++
		}
	}
	if dropped == 0 {
		t.Error("a million charges were queued and none was dropped, so the queue isn't bounded")
	}
}
