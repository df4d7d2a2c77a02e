package redis

import (
	"errors"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter/quota"
)

// TestKilledAndRestartedEmpty makes two instances serve clients while Redis is down and afterwards.
func TestKilledAndRestartedEmpty(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	o := s.options()
	o.Timeout = 0
	cars := [2]*sidecar{startSidecar(t, o), startSidecar(t, o)}
	linked(t, cars[0], cars[1])
	l := startLoad(cars)
	for _, car := range cars {
		before := car.sharer.State().RoundTrips
		testkit.Eventually(t, "charges are shared", func() bool { return car.sharer.State().RoundTrips > before+10 })
	}
	s.Kill()
	for _, car := range cars {
		testkit.Eventually(t, "Redis is down, and not only the last batch is dropped", func() bool {
			got := car.sharer.State()
			return !got.Connected && got.Failures > 0 && got.LastError != "" && got.Dropped > mostCharges
		})
	}
	s.Start()
	t.Logf("linked again after %v", linked(t, cars[0], cars[1]))
	linked(t, cars[1], cars[0])
	l.end(t)
	for _, car := range cars {
		testkit.Eventually(t, "the state shows that Redis is back", func() bool { return car.sharer.State().Connected })
		got := car.sharer.State()
		if got.Dropped == 0 || got.Pending > pendingKeys {
			t.Errorf("after Redis has come back: %+v", got)
		}
		t.Logf("%+v", got)
	}
}

// TestNothingOldIsCharged: if Redis receives a charge while it hangs, it doesn't apply the charge when it
// continues, if the charge is too old by then.
func TestNothingOldIsCharged(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	o := s.options()
	o.Timeout = 0
	car := startSidecar(t, o)
	linked(t, car, car)
	direct := s.direct()
	s.Pause()
	began := time.Now()
	before := car.sharer.State().Failures
	car.charge("late", 500*time.Millisecond)
	testkit.Eventually(t, "Redis hasn't answered the charge", func() bool { return car.sharer.State().Failures > before })
	time.Sleep(time.Until(began.Add(stale + time.Second/2)))
	s.Resume()
	linked(t, car, car)
	name := car.sharer.names.account(client("late"))
	if got, err := direct.Do(ctx, direct.B().Exists().Key(name).Build()).AsInt64(); err != nil || got != 0 {
		t.Errorf("an old charge was applied (%v)", err)
	}
	if calls(t, s, "evalsha") == 0 {
		t.Error("no charge was applied")
	}
}

// TestChecksDoNotFindOut: once Redis is known to hang, no request waits to test whether Redis has continued.
func TestChecksDoNotFindOut(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	o := s.options()
	o.Timeout = 100 * time.Millisecond
	c := checker(t, o)
	b := quota.Bucket{Size: 100, DripRate: quota.Most, DripSize: 1}
	check := func() error {
		_, err := c.Check(ctx, time.Time{}, "a", "b", b, 1)
		return err
	}
	testkit.Eventually(t, "a check succeeds", func() bool { return check() == nil })
	s.Pause()
	testkit.Eventually(t, "a check fails", func() bool { return check() != nil })
	before := c.State().Failures
	testkit.Eventually(t, "the link has tried three times", func() bool {
		if err := check(); !errors.Is(err, ErrAway) {
			t.Fatalf("a check waited for a Redis that hangs: %v", err)
		}
		return c.State().Failures >= before+3
	})
	s.Resume()
	testkit.Eventually(t, "a check succeeds after Redis has continued", func() bool { return check() == nil })
}
