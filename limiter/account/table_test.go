package account_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tempomat/internal/testkit"
	"tempomat/limiter/account"
)

const second = time.Second

// usage is the value that the tests keep with a bucket.
type usage struct{}

type (
	table       = account.Table[usage]
	reservation = account.Reservation[usage]
)

func key(id string) account.Key { return account.Key{Class: "slash32", ID: id} }

// newTable returns a table whose accounts earn half a CPU-second per second, save at most 10, and owe at most
// 60.
func newTable(size int, change ...func(*account.Terms)) *table {
	t := account.New[usage](size)
	terms := &account.Terms{Class: "slash32", Rate: 0.5, Burst: 10, Floor: -60, Cap: true}
	for _, f := range change {
		f(terms)
	}
	t.SetTerms(0, []*account.Terms{terms})
	return t
}

// level returns the level of a key's account.
func level(t *table, at time.Duration, id string) float64 {
	s, _ := t.Find(at, key(id))
	return s.Level
}

func wantLevel(t *testing.T, x *table, at time.Duration, id string, want float64) {
	t.Helper()
	if got := level(x, at, id); math.Abs(got-want) > 1e-6 {
		t.Errorf("%s at %v: level %g, want %g", id, at, got, want)
	}
}

// A request is charged its guess when it arrives, and its real cost when it ends.
func Example() {
	accounts := account.New[struct{}](1000)
	accounts.SetTerms(0, []*account.Terms{{Class: "slash32", Rate: 0.5, Burst: 10, Floor: -60, Cap: true}})
	who := account.Key{Class: "slash32", ID: "203.0.113.9"}

	var r account.Reservation[struct{}]
	if owes := accounts.Lookup(0, who, &r, 2, true); owes == 0 && r.Bucket == nil {
		accounts.Enter(0, who, &r) // no request has used the key before
	}
	r.Reserve(0, 2)
	r.Settle(time.Second, account.Change{More: 11}, 13, 0)

	owes, _ := accounts.Debt(time.Second, who)
	fmt.Println(owes)
	// Output: 5s
}

func TestUnknownKeysHaveTheirBurst(t *testing.T) {
	x := newTable(100)
	if s, of := x.Find(0, key("a")); of != nil || s.Level != 10 || s.Rate != 0.5 || s.Burst != 10 {
		t.Errorf("%+v, %v", s, of)
	}
	if owes, by := x.Debt(0, key("a")); owes != 0 || by != nil || by.Concerns(owes) {
		t.Errorf("the key owes %v", owes)
	}
	var r reservation
	if x.Lookup(0, key("a"), &r, 1, true); r.Bucket != nil || x.Len() != 0 {
		t.Error("a query makes a bucket")
	}
	x.Enter(0, account.Key{Class: "another", ID: "a"}, &r)
	x.Charge(0, account.Key{Class: "another", ID: "a"}, 1)
	if r.Bucket != nil || x.Len() != 0 || x.Terms("another") != nil {
		t.Error("a class without terms has a bucket")
	}
	if forgiven, of := x.Forgive(0, key("a")); forgiven != 0 || of != nil {
		t.Errorf("%g forgiven to a key without a bucket", forgiven)
	}
}

// TestLookupChargesKeysWithoutDebt: Lookup charges only keys that owe nothing. If debt has no effect, it
// charges all keys.
func TestLookupChargesKeysWithoutDebt(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*account.Terms)
		debt    float64
		reserve bool
		owes    time.Duration
		charged float64
	}{
		"owes nothing":        {nil, 10, true, 0, 3},
		"reserve is false":    {nil, 10, false, 0, 0},
		"owes":                {nil, 11, true, 2 * second, 0},
		"owes in shadow":      {func(x *account.Terms) { x.Shadow = true }, 11, true, 2 * second, 0},
		"a response is held":  {func(x *account.Terms) { x.Cap, x.Hold = false, true }, 11, true, 2 * second, 0},
		"debt delays nothing": {func(x *account.Terms) { x.Cap = false }, 11, true, 2 * second, 3},
	} {
		x := newTable(100)
		if c.change != nil {
			x = newTable(100, c.change)
		}
		x.Charge(0, key("a"), c.debt)
		var r reservation
		if owes := x.Lookup(0, key("a"), &r, 3, c.reserve); owes != c.owes || r.Until != c.owes {
			t.Errorf("%s: owes %v until %v, want %v", name, owes, r.Until, c.owes)
		}
		testkit.Same(t, c.charged, 10-c.debt-level(x, 0, "a"), "%s: charged", name)
	}
}

// TestReservationsAreGivenBack: a request that never ran leaves no charge.
func TestReservationsAreGivenBack(t *testing.T) {
	for name, end := range map[string]func(*reservation){
		"undone":        func(r *reservation) { r.Undo(0); r.Undo(0); r.Leave(0, 0) },
		"left":          func(r *reservation) { r.Leave(0, 0) },
		"half, and all": func(r *reservation) { r.Change(0, account.Change{Back: 0.5}); r.Leave(0, 0) },
		"cost nothing":  func(r *reservation) { r.Settle(0, account.Change{Back: 1}, 0, 0) },
	} {
		x := newTable(100)
		x.Charge(0, key("a"), 68) // 2 above the floor
		var r reservation
		x.Enter(0, key("a"), &r)
		if r.Reserve(0, 5); level(x, 0, "a") != -60 {
			t.Errorf("%s: level %g", name, level(x, 0, "a"))
		}
		r.Reserve(0, 5) // charges nothing, because the reservation is already made
		if got := r.DebtRatio(0, 5, true); math.Abs(got-58./60) > 1e-6 {
			t.Errorf("%s: debt ratio %g", name, got)
		}
		end(&r)
		if s, _ := x.Find(0, key("a")); s.Level != -58 || s.Charged != 68 || s.Running != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestDebtRatioReserves: DebtRatio reserves only on request, and returns the ratio before the reservation.
func TestDebtRatioReserves(t *testing.T) {
	x := newTable(100)
	x.Charge(0, key("a"), 40)
	var r reservation
	x.Enter(0, key("a"), &r)
	for _, reserve := range []bool{false, true, true} {
		testkit.Same(t, 0.5, r.DebtRatio(0, 6, reserve), "ratio")
		want := -30.0
		if reserve {
			want = -36
		}
		wantLevel(t, x, 0, "a", want)
	}
}

// TestSettleHoldsInTurn: each response is held for the key's debt up to and including its request.
func TestSettleHoldsInTurn(t *testing.T) {
	x := newTable(100, func(x *account.Terms) { x.Cap, x.Hold, x.Burst = false, true, 0 })
	var first, later reservation
	x.Enter(0, key("a"), &first)
	x.Enter(0, key("a"), &later)
	first.Reserve(0, 1)
	later.Reserve(0, 2)
	x.SetTerms(0, []*account.Terms{x.Terms("slash32")})
	testkit.Same(t, 2*second, first.Settle(0, account.Change{}, 1, time.Hour), "the first response is held for")
	testkit.Same(t, 5*second, later.Settle(0, account.Change{}, 2, 5*second), "the second response is held for 5 s instead of 6 s")
	if s, _ := x.Find(0, key("a")); s.Running != 0 || s.Wait != 3.5 || first.Factor != 1 {
		t.Errorf("%+v", s)
	}
}

func TestWaitingIsCounted(t *testing.T) {
	x := newTable(100)
	var r reservation
	x.Enter(0, key("a"), &r)
	r.Bucket.WaitForDebt(1, 12)
	if owes, _ := x.Debt(0, key("a")); owes != 4*second {
		t.Errorf("after a charge of 12, another request waits for %v, want 4 s", owes)
	}
	testkit.Same(t, 1, r.Bucket.Hold(1), "held")
	if s, _ := x.Find(0, key("a")); s.Waiting != 1 || s.Running != 0 || s.Held != 1 || s.Queued != 12 {
		t.Errorf("%+v", s)
	}
	r.Bucket.WaitForDebt(-1, -12)
	r.Bucket.WaitElsewhere(1, 2*second)
	if s, _ := x.Find(4*second, key("a")); s.Waiting != 1 || s.Queued != 0 || math.Abs(s.Wait-0.2) > 1e-9 {
		t.Errorf("%+v, want an average of 0.2 s", s)
	}
	r.Bucket.WaitElsewhere(-1, 2*second)
	r.Waited = 3
	r.Leave(4*second, 2)
	if s, _ := x.Find(5*second, key("a")); s.Waiting != 0 || s.Running != 0 || s.Wait != 3 || s.Idle != second {
		t.Errorf("%+v", s)
	}
}

// TestExternalKeysWait: a key of an external class waits until the time that its peers set, whatever requests
// arrive in the meantime.
func TestExternalKeysWait(t *testing.T) {
	x := newTable(100, func(x *account.Terms) { x.External, x.Rate, x.Burst, x.Floor = true, 1, 0, -3600 })
	x.Owe(0, key("a"), 5*second)
	x.Charge(0, key("a"), 7)
	var r reservation
	if owes := x.Lookup(second, key("a"), &r, 1, true); owes != 4*second || r.Until != 5*second {
		t.Errorf("the key waits for %v until %v", owes, r.Until)
	}
	x.Owe(0, key("a"), 50*second)
	testkit.Same(t, 2*second, r.Blocks(3*second), "it is still blocked for")
	testkit.Same(t, 0, r.Blocks(9*second), "it is still blocked for")
}

// TestFactorKeepsDebt: a new standing changes how much a key earns, but doesn't change its debt. Plain terms
// ignore the standing.
func TestFactorKeepsDebt(t *testing.T) {
	for _, capped := range []bool{false, true} {
		x := newTable(100, func(x *account.Terms) { x.Plain = capped })
		x.Charge(0, key("a"), 30)
		_, b := x.Find(0, key("a"))
		want := 0.5 * 4.0
		if capped {
			want = 0.5
		}
		testkit.Same(t, want, b.SetStanding(0, 4), "capped %t: rate", capped)
		wantLevel(t, x, 0, "a", -20)
		testkit.Same(t, time.Duration(8/want*float64(second)), b.Earns(8), "capped %t: 8 CPU-seconds take", capped)
	}
}

func TestForgive(t *testing.T) {
	x := newTable(100)
	x.Charge(0, key("a"), 30)
	if forgiven, of := x.Forgive(2*second, key("a")); forgiven != 19 || of == nil {
		t.Errorf("%g forgiven, want 19", forgiven)
	}
	wantLevel(t, x, 2*second, "a", 0)
	if forgiven, _ := x.Forgive(4*second, key("a")); forgiven != 0 {
		t.Errorf("%g forgiven although the key had credit", forgiven)
	}
	wantLevel(t, x, 4*second, "a", 1)
}

// TestEvictionSparesDebtAndPins: the table keeps keys that are in debt or have running requests, however many
// new keys arrive.
func TestEvictionSparesDebtAndPins(t *testing.T) {
	x := newTable(1 << 10)
	x.Charge(0, key("debtor"), 50)
	var runs, held reservation
	x.Enter(0, key("runs"), &runs)
	x.Enter(0, key("held"), &held)
	held.Bucket.Hold(1)
	held.Leave(0, 0)
	for i := range 20_000 {
		x.Charge(0, key(fmt.Sprint(i)), 1)
	}
	for _, id := range []string{"debtor", "runs", "held"} {
		if _, of := x.Find(0, key(id)); of == nil {
			t.Errorf("%s is forgotten", id)
		}
	}
	if n := x.Len(); n > 1<<10+3 {
		t.Errorf("%d buckets, want about 1024", n)
	}
}

// TestTableIsAMap: the table finds each key that was added, whatever other keys are added and removed.
func TestTableIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newTable(1 << 12)
		want := map[string]float64{}
		for range rapid.IntRange(1, 300).Draw(t, "charges") {
			id := fmt.Sprint(rapid.IntRange(0, 100).Draw(t, "key"))
			x.Charge(0, key(id), 0.125)
			want[id] += 0.125
		}
		var ids []string
		x.All(0, "slash32", func(s account.State, b *account.Bucket[usage]) bool {
			if ids = append(ids, s.Key.ID); s.Charged != want[s.Key.ID] || b.Key != s.Key {
				t.Fatalf("%+v, want %g charged", s, want[s.Key.ID])
			}
			return true
		})
		if slices.Sort(ids); len(ids) != len(want) || len(slices.Compact(ids)) != len(want) || x.Len() != len(want) {
			t.Fatalf("All lists %d of %d buckets", len(ids), len(want))
		}
	})
}

// TestAllStops: All lists all classes or one, and stops when yield returns false.
func TestAllStops(t *testing.T) {
	x := newTable(1000)
	x.SetTerms(0, []*account.Terms{x.Terms("slash32"), {Class: "slash24", Rate: 1, Burst: 1, Floor: -1}})
	for i := range 20 {
		x.Charge(0, key(fmt.Sprint(i)), 1)
		x.Charge(0, account.Key{Class: "slash24", ID: fmt.Sprint(i)}, 1)
	}
	count := func(class string, most int) (n int) {
		x.All(0, class, func(account.State, *account.Bucket[usage]) bool {
			n++
			return n < most
		})
		return n
	}
	if a, b, c, d := count("", 99), count("slash24", 99), count("slash16", 99), count("", 3); a != 40 || b != 20 || c != 0 || d != 3 {
		t.Errorf("%d keys of all classes, %d of one class, %d of an unknown class, %d until All stopped", a, b, c, d)
	}
}
