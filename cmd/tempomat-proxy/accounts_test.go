package main

import (
	"errors"
	"math"
	"strconv"
	"testing"
	"time"

	"tempomat/limiter"
)

func accountsOf(classes ...string) (*limiter.Limiter, time.Time) {
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	p := limiter.Policy{Mode: limiter.Fair}
	for i, c := range classes {
		p.Classes = append(p.Classes, limiter.ClassInfo{Name: c, Budget: limiter.Budget{CPUs: 1, Burst: time.Duration(i) * time.Second}})
	}
	return limiter.New(now, p, 100_000, nil), now
}

// TestAccountsAreHandedOn: each key stands as it stood; who lacks nothing is not told
// of, and a class that there is not any more is left out.
func TestAccountsAreHandedOn(t *testing.T) {
	from, now := accountsOf("slash32", "slash24", "old")
	to, _ := accountsOf("slash32", "slash24", "new")
	spend := func(class, id string, cost time.Duration) {
		from.Debit(now, limiter.Charge{Key: limiter.Key{Class: class, ID: id}, Cost: cost})
	}
	const keys = 2*accountsAtOnce + 7
	for i := range keys {
		spend("slash32", strconv.Itoa(i), time.Duration(i+2)*time.Millisecond)
	}
	spend("slash24", "some credit", 300*time.Millisecond)
	spend("slash24", "\xff\xfe", 3*time.Second)
	spend("slash24", "all its credit", 0)
	spend("old", "a debtor", time.Minute)
	parts := 0
	if err := tellAccounts(now, from, func(data []byte) error {
		parts++
		return takeAccounts(now, to, data)
	}); err != nil {
		t.Fatal(err)
	}
	if parts != 3 || to.Keys() != keys+2 {
		t.Errorf("%d parts, %d keys; want 3, %d", parts, to.Keys(), keys+2)
	}
	to.Dump(now, "", func(r limiter.Row) bool {
		was, ok := from.Find(now, limiter.Key{Class: r.Class, ID: r.ID})
		if !ok || math.Abs(was.Level-r.Level) > 1e-6 {
			t.Errorf("%s %q had %f (known: %t) and has %f", r.Class, r.ID, was.Level, ok, r.Level)
		}
		return true
	})
}

// TestAccountsAreNotHandedOn: what goes wrong is told.
func TestAccountsAreNotHandedOn(t *testing.T) {
	from, now := accountsOf("slash32")
	from.Debit(now, limiter.Charge{Key: limiter.Key{Class: "slash32", ID: "192.0.2.1"}, Cost: time.Second})
	broken := errors.New("broken")
	if err := tellAccounts(now, from, func([]byte) error { return broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := takeAccounts(now, from, []byte("nonsense")); err == nil {
		t.Error("nonsense was taken")
	}
	deepest := []byte(`[{"class":"slash32","id":"eA==","level":-1e300}]`)
	if err := takeAccounts(now, from, deepest); err != nil {
		t.Error(err)
	}
	if r, ok := from.Find(now, limiter.Key{Class: "slash32", ID: "x"}); !ok || r.Level != -limiter.DefaultMemory.Seconds() {
		t.Errorf("the deepest debt is %f, %t", r.Level, ok)
	}
}
