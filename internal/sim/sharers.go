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

// Fleet makes sharers that are connected with each other, by one way to share.
type Fleet interface {
	// Join returns the sharer of one more sidecar. It is not running yet.
	Join(t testing.TB) limiter.Sharer
	// Cut lets nothing through between the sidecars until Heal.
	Cut()
	Heal()
}

// What the fleets of the suite share, in CPU-seconds.
const (
	fleetRate  = 0.5
	fleetBurst = 1.0
	fleetCost  = 0.02
)

// Sharers is what every way to share has to stand, in real time: one limit for
// all sidecars, nobody else pays, newcomers learn, and who is cut off works alone,
// in full, and invents no debt when it is back. open makes a fleet for the classes
// of a policy, which ends with the test.
func Sharers(t *testing.T, open func(t *testing.T, p limiter.Policy) Fleet) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, *fleet)
	}{
		{"one limit for all", oneLimitForAll},
		{"a newcomer learns of debts", aNewcomerLearns},
		{"alone when cut off", aloneWhenCutOff},
		{"a full outbox delays nobody", aFullOutbox},
		{"who is known is known to all", whoIsKnown},
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

// fleet is sidecars that share: limiters with their sharers running.
type fleet struct {
	Fleet
	policy limiter.Policy
}

// sidecar is one of them.
type sidecar struct {
	*limiter.Limiter
	sharer   limiter.Sharer
	exchange *known.Exchange
	began    time.Time
}

func clientKey(id string) limiter.Key { return limiter.Key{Class: "slash32", ID: id} }

// start runs one more sidecar until the test ends.
func (f *fleet) start(t *testing.T) *sidecar { return f.startWith(t, 1) }

// startWith runs one that has this secret.
func (f *fleet) startWith(t *testing.T, secret byte) *sidecar {
	s := f.Join(t)
	began := time.Now()
	car := &sidecar{limiter.New(began, f.policy, 1<<12, s), s, known.NewExchange(), began}
	car.Known().Share(car.exchange, [16]byte{1}) // only their packets tell them apart
	car.exchange.SetKeys([32]byte{secret}, [32]byte{secret})
	car.exchange.Ask(time.Now())
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx, car); err != nil && ctx.Err() == nil {
			t.Errorf("the sharer gave up: %v", err)
		}
	})
	running.Go(func() { car.drive(ctx) })
	t.Cleanup(func() {
		end()
		running.Wait()
	})
	return car
}

// drive is what a proxy does for its limiter.
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

// ask sends one request of a client and waits until it is over; false if it was
// refused or the context ended first.
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

// level is a client's balance in CPU-seconds, a whole burst if it is not known.
func (s *sidecar) level(client string) float64 {
	if r, ok := s.Find(time.Now(), clientKey(client)); ok {
		return r.Level
	}
	return fleetBurst
}

// connected waits until what is charged at one sidecar is known to all others.
func (f *fleet) connected(t *testing.T, cars []*sidecar, name string) {
	t.Helper()
	for i, from := range cars {
		client, tries := fmt.Sprintf("%s-%d", name, i), 0
		testkit.Eventually(t, "a charge of sidecar "+client+" is known to all", func() bool {
			if tries++; tries%50 == 1 { // what was lost before they were connected stays lost
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

// oneLimitForAll has one client ask three sidecars for all that it can get.
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
	t.Logf("one client at three sidecars: %.2f CPU-seconds of %.2f that one sidecar allows; overshoot at most %.2f", spent, allowed, worst)
	// Where bursts are divided, a sidecar's own part of it is all that is left once it
	// has heard of what the others let through.
	least := fleetBurst/float64(len(cars)) + fleetRate*lasts.Seconds()
	if spent < 0.9*least || spent > 1.1*allowed {
		t.Errorf("the client got %.2f CPU-seconds, want %.2f to %.2f within a tenth", spent, least, allowed)
	}
	for i, car := range cars {
		if l := car.level("neighbour"); l != fleetBurst {
			t.Errorf("sidecar %d: a client that asked for nothing has %v", i, l)
		}
	}
}

// aNewcomerLearns starts a sidecar when a client owes already.
func aNewcomerLearns(t *testing.T, f *fleet) {
	cars := []*sidecar{f.start(t), f.start(t)}
	f.connected(t, cars, "link")
	cars[0].ask(context.Background(), "debtor", 6, 0)
	testkit.Eventually(t, "the other sidecar knows of the debt", func() bool { return cars[1].level("debtor") < 0 })
	late := f.start(t)
	testkit.Eventually(t, "the newcomer knows of the debt", func() bool {
		cars[0].Settle(time.Now(), cars[0].Arrive(time.Now(), limiter.Arrival{Client: clientKey("other")}), 0)
		return late.level("debtor") < 0
	})
	if l := late.level("debtor"); l < fleetBurst/3-6-0.1 {
		t.Errorf("the newcomer has the client owe more than it spent: %v", l)
	}
}

// aloneWhenCutOff cuts the fleet, lets one sidecar serve on, and heals it.
func aloneWhenCutOff(t *testing.T, f *fleet) {
	cars := []*sidecar{f.start(t), f.start(t)}
	f.connected(t, cars, "link")
	f.Cut()
	now := context.Background()
	for i := range 200 {
		if !cars[0].ask(now, fmt.Sprintf("client-%d", i), fleetCost, 0) {
			t.Fatalf("request %d was refused though its client owed nothing", i)
		}
	}
	if !cars[1].ask(now, "spender", 3, 0) {
		t.Fatal("a client within its burst was refused")
	}
	if l := cars[1].level("spender"); l > fleetBurst-3+0.5 {
		t.Errorf("the sidecar that is alone does not keep its own books: %v", l)
	}
	time.Sleep(500 * time.Millisecond) // a while, for what should not queue to queue
	f.Heal()
	f.connected(t, cars, "again")
	least := fleetBurst / float64(len(cars)) // bursts may be divided
	for i, car := range cars {
		if l := car.level("spender"); l < least-3-0.1 {
			t.Errorf("sidecar %d: the client owes more than it spent: %v", i, l)
		}
		for c := range 200 {
			if l := car.level(fmt.Sprintf("client-%d", c)); l < least-fleetCost-0.01 {
				t.Errorf("sidecar %d: client %d owes more than it spent: %v", i, c, l)
			}
		}
	}
}

// knows reports whether a client is known.
func (s *sidecar) knows(client string) bool {
	return s.Known().Has(time.Since(s.began), client)
}

// whoIsKnown has one sidecar know clients: all others do, also one that begins, and one whose secret is
// another neither learns nor is believed. Packets that somebody makes up, or sends again, are worth nothing.
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
		t.Logf("known to all after %v", all(fmt.Sprint("client-", i), cars...))
	}
	tell(stranger, "stranger")
	for range 100 { // whoever reaches the way, but has not the secret
		forged := known.NewExchange()
		forged.SetKeys([32]byte{3}, [32]byte{3})
		forged.Tell(known.Entry{Kind: known.OfClient, Hash: 1, At: time.Now().Unix()})
		for _, p := range append(forged.Pack(time.Now()), []byte("nonsense"), make([]byte, known.MostPacket)) {
			cars[0].sharer.Carry(p)
		}
	}
	testkit.Eventually(t, "another secret is told", func() bool {
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
			t.Errorf("sidecar %d knows who is known to nobody with its secret", i)
		}
	}
	if stranger.knows("client-0") {
		t.Error("without the secret a client is known")
	}
}

// aFullOutbox offers more than any sharer can take while nobody takes it.
func aFullOutbox(t *testing.T, f *fleet) {
	s := f.Join(t) // it does not run
	dropped := 0
	for i := range 1_000_000 {
		now := time.Now()
		if !s.Offer(limiter.Charge{Key: clientKey(fmt.Sprint(i % 1000)), Cost: time.Millisecond, At: now, Received: now, Until: now}) {
			dropped++
		}
	}
	if dropped == 0 {
		t.Error("a million charges were taken and not one dropped: the queue is not bounded")
	}
}
