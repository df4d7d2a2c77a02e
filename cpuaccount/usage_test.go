package cpuaccount

import (
	"math"
	"testing"
)

func TestUsage(t *testing.T) {
	type reading struct {
		at   float64
		text string
		want float64 // negative: not told
	}
	for _, c := range []struct {
		name     string
		usage    *Usage
		readings []reading
	}{
		{"machine", MachineUsage(4), []reading{
			{0, "cpu  100 0 50 1000 10 0 0 0 0 0\ncpu0 1 2 3\n", -1},
			{1, "cpu  150 0 50 1050 10 0 0 0 0 0\n", 0.5},
			{2, "cpu  150 0 50 1050 110 0 0 0 0 0\n", 0},
			{3, "cpu  150 0 50 1050 110 0 0 100 0 0\n", 1},
			{4, "cpu  150 0 50 1050 110 0 0 100 0 0\n", -1},
			{5, "intr 5\n", -1},
			{6, "cpu  150 0 50\n", -1},
			{7, "cpu  0 0 0 0 0\n", -1},
			{7.5, "cpu  0 0 0 0 0\n", -1},
			{8, "cpu  9 0 0 1\n", 0.9},
			{9, "", -1},
		}},
		{"one CPU of a machine with two", MachineUsage(1), []reading{
			{0, "cpu  100 0 50 1000\ncpu0 50 0 25 500\ncpu1 50 0 25 500\nintr 5\n", -1},
			{1, "cpu  150 0 50 1150\ncpu0 50 0 25 500\ncpu1 50 0 25 500\nintr 5\n", 0.5},
			{2, "cpu  250 0 50 1250\ncpu0 50 0 25 500\ncpu1 50 0 25 500\nintr 5\n", 1},
			{3, "cpu  0 0 0 0 0 0 0 0\ncpu0\ncpu1\n", -1},
			{4, "cpu  10 0 10 80 0 0 0 0\ncpu0\ncpu1\n", 0.4},
		}},
		{"cgroup of 2 CPUs", CgroupUsage(2), []reading{
			{0, "usage_usec 1000000\nuser_usec 1\n", -1},
			{1, "nr 1\nusage_usec 2000000\n", 0.5},
			{2, "usage_usec 9000000", 1},
			{2, "usage_usec 9000000", -1},
			{3, "usage_usec x", -1},
			{4, "user_usec 1\n", -1},
			{5, "usage_usec 9000000\n", 0},
		}},
		{"cgroup whose quota is less than is known", CgroupUsage(8), []reading{
			{0, "usage_usec 1000000\nnr_periods 10\nnr_throttled 1\n", -1},
			{1, "usage_usec 2000000\nnr_periods 20\nnr_throttled 11\n", 1},
			{2, "usage_usec 3000000\nnr_periods 30\nnr_throttled 16\n", 0.5},
			{3, "usage_usec 4600000\nnr_periods 40\nnr_throttled 16\n", 0.2},
		}},
	} {
		for i, r := range c.readings {
			got, ok := c.usage.Sample(at(r.at), []byte(r.text))
			if !ok {
				got = -1
			}
			if !(math.Abs(got-r.want) <= 1e-9) {
				t.Errorf("%s, reading %d: %g, want %g", c.name, i, got, r.want)
			}
		}
	}
}

// FuzzUsage checks that no text makes a use that is none.
func FuzzUsage(f *testing.F) {
	f.Add([]byte("cpu  1 2 3 4 5 6 7 8\n"), []byte("cpu  2 3 4 5 6 7 8 9\n"))
	f.Add([]byte("usage_usec 1\n"), []byte("usage_usec 18446744073709551616\n"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for _, u := range []*Usage{MachineUsage(2), CgroupUsage(2)} {
			u.Sample(at(0), a)
			if x, ok := u.Sample(at(1), b); ok && !(x >= 0 && x <= 1) {
				t.Errorf("%g", x)
			}
		}
	})
}
