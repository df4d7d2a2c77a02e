package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/cpuaccount"
	"tempomat/internal/testkit"
)

// cgroupUsed writes a cpu.stat with the given number of CPU-seconds.
func cgroupUsed(t *testing.T, dir string, seconds float64) {
	t.Helper()
	testkit.WriteFile(t, filepath.Join(dir, "cpu.stat"), fmt.Sprintf("usage_usec %d\nuser_usec 1\nsystem_usec 2\n", int64(seconds*1e6)), 0o600)
}

// TestUsageMeter reads the counters of a cgroup that disappears twice. When it comes back, its
// counters begin at 0.
func TestUsageMeter(t *testing.T) {
	dir := t.TempDir()
	cgroupUsed(t, dir, 100)
	m, err := OpenUsage(dir, 2, nil)
	testkit.Must(t, err)
	var lost atomic.Int32
	m.Lost = func(err error) {
		if lost.Add(1); err == nil {
			t.Error("lost without an error")
		}
	}
	lose := func() {
		name := filepath.Join(dir, "cpu.stat")
		testkit.Must(t, errors.Join(os.Truncate(name, 0), os.Remove(name)))
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		uses := make(chan float64, 1)
		go m.Run(ctx, func(_ time.Time, use cpuaccount.Use) { uses <- use.CPUs })
		time.Sleep(usageEvery / 2) // from here on, samples fall between two readings
		for i, step := range []struct {
			used float64 // CPU-seconds, with 2 CPUs and 2 readings a second; negative: the cgroup is gone
			want float64 // negative: no reading
			lost int32
		}{
			{100, 0, 0}, {100.5, 0.5, 0}, {101.5, 1, 0}, {101.5, 0, 0},
			{-1, -1, 1}, {-2, -1, 1}, {-2, -1, 1},
			{0, -1, 1}, // the cgroup's counters begin again
			{0.25, 0.25, 1},
			{-1, -1, 2}, {0.75, 0.25, 2}, // twice the time since the last reading
		} {
			if step.used >= 0 {
				cgroupUsed(t, dir, step.used)
			} else if step.used == -1 {
				lose()
			}
			time.Sleep(usageEvery)
			synctest.Wait()
			told := -1.0
			select {
			case told = <-uses:
			default:
			}
			if math.Abs(told-step.want) > 1e-6 || lost.Load() != step.lost {
				t.Errorf("step %d: told %g, want %g; lost %d times, want %d", i, told, step.want, lost.Load(), step.lost)
			}
		}
		cancel()
	})
}

// TestUsageOfThisMachine checks that this kernel's counters can be read, and that a missing cgroup is
// an error.
func TestUsageOfThisMachine(t *testing.T) {
	m, err := OpenUsage("", 2, nil)
	testkit.Must(t, err)
	m.sample(time.Now())
	testkit.Eventually(t, "the machine's use is told", func() bool {
		use, ok := m.sample(time.Now())
		return ok && use.CPUs >= 0
	})
	if _, err := OpenUsage(t.TempDir(), 2, nil); err == nil {
		t.Error("opened the counters of no cgroup")
	}
}

// TestPressureOfACgroup reads the pressure of a cgroup.
func TestPressureOfACgroup(t *testing.T) {
	dir := t.TempDir()
	cgroupUsed(t, dir, 1)
	pressure := filepath.Join(dir, "cpu.pressure")
	testkit.WriteFile(t, pressure, "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\n", 0o600)
	m, err := OpenUsage(dir, 2, nil)
	testkit.Must(t, err)
	now := time.Now()
	if _, ok := m.sample(now); ok {
		t.Error("the first reading tells something")
	}
	testkit.WriteFile(t, pressure, "some avg10=0.00 avg60=0.00 avg300=0.00 total=1250000\n", 0o600)
	cgroupUsed(t, dir, 2)
	use, ok := m.sample(now.Add(time.Second))
	if !ok || math.Abs(use.CPUs-0.5) > 1e-6 || math.Abs(use.Pressure-0.25) > 1e-6 {
		t.Errorf("%+v, %v", use, ok)
	}
	testkit.Same(t, "", m.own, "beside a cgroup that was named, the one read")
}

// TestThrottledContainer: a container with no quota left counts as full, however idle the machine's CPUs are. A
// service's own cgroup says nothing about the backend.
func TestThrottledContainer(t *testing.T) {
	dir := t.TempDir()
	self, stat := filepath.Join(dir, "self"), filepath.Join(dir, "cpu.stat")
	testkit.WriteFile(t, stat, "usage_usec 1\nnr_periods 10\nnr_throttled 1\n", 0o600)
	for text, want := range map[string]bool{"0::/\n": true, "0::/system.slice/tempomat.service\n": false, "1:cpu:/\n0::/\n": false, "": false} {
		testkit.WriteFile(t, self, text, 0o600)
		testkit.Same(t, want, quotaFile(self, dir) != "", "%q: a file is read", text)
	}
	m := &UsageMeter{own: stat, use: stat, usage: cpuaccount.MachineUsage(100)} // no /proc/stat: the machine's use is unknown
	now := time.Now()
	m.sample(now)
	testkit.WriteFile(t, stat, "usage_usec 1\nnr_periods 20\nnr_throttled 11\n", 0o600)
	if use, _ := m.sample(now.Add(time.Second)); use.CPUs != 1 {
		t.Errorf("%+v, want a full machine", use)
	}
	testkit.WriteFile(t, self, "0::/\n", 0o600)
	testkit.WriteFile(t, stat, "usage_usec 1\n", 0o600)
	testkit.Same(t, "", quotaFile(self, dir), "the quota of a container without one")
}
