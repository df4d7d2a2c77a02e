package cpuaccount

import (
	"math"
	"testing"
)

// unknown returns the use of a backend that hasn't been measured.
func unknown() Own { return Own{CPU: -1, Lacked: -1, Waits: -1} }

func TestUsage(t *testing.T) {
	type reading struct {
		at   float64
		text string
		want float64 // negative: no value
	}
	for _, c := range []struct {
		name     string
		usage    *Usage
		readings []reading
	}{
		{"machine", MachineUsage(4), []reading{
			{0, "cpu  100 0 50 1000 10 0 0 0 0 0\ncpu0 1 2 3\n", -1},
			{1, "cpu  150 0 50 1050 10 0 0 0 0 0\n", 0.5},
			{2, "cpu  150 0 50 1050 110 0 0 0 0 0\n", 0},        // iowait
			{3, "cpu  150 80 50 1070 110 0 0 0 0 0\n", 0},       // niced
			{4, "cpu  170 80 50 1080 110 0 0 70 0 0\n", 2. / 3}, // stolen time doesn't count as available
			{5, "cpu  170 80 50 1080 110 0 0 170 0 0\n", -1},
			{6, "intr 5\n", -1},
			{7, "cpu  150 0 50\n", -1},
			{8, "cpu  0 0 0 0 0\n", -1},
			{8.5, "cpu  0 0 0 0 0\n", -1},
			{9, "cpu  9 0 0 1\n", 0.9},
			{10, "", -1},
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
			got, ok := c.usage.Sample(at(r.at), []byte(r.text), unknown())
			if !ok {
				got.CPUs = -1
			}
			if !(math.Abs(got.CPUs-r.want) <= 1e-9) {
				t.Errorf("%s, reading %d: %+v, want %g", c.name, i, got, r.want)
			}
		}
	}
}

// TestBackendsOwnUse: CPU time used by niced programs is available to the backend, and CPU time used by other programs
// isn't. The backend's own use is no more than it really used. Each case is one second on two CPUs.
func TestBackendsOwnUse(t *testing.T) {
	const idle = "cpu  0 0 0 200\n"
	for name, c := range map[string]struct {
		text      string // ticks of that second
		own       Own
		cpus, use float64
	}{
		"nobody is known":                       {"cpu  60 0 40 100\n", unknown(), 0.5, 1},
		"nobody, beside what is niced":          {"cpu  20 160 0 20\n", unknown(), 0.1, 0.2},
		"all niced may be the backend's":        {"cpu  20 160 0 20\n", Own{CPU: -1, Niced: math.Inf(1), Waits: -1}, 0.9, 1.8},
		"it alone":                              {"cpu  60 0 40 100\n", Own{CPU: 1, Waits: -1}, 0.5, 1},
		"beside others":                         {"cpu  160 0 40 0\n", Own{CPU: 0.1, Lacked: 0.7, Waits: -1}, 1, 0.1},
		"beside others, and it does wait":       {"cpu  160 0 40 0\n", Own{CPU: 0.1, Waits: 0.95}, 1, 0.1},
		"beside others that stand back":         {"cpu  160 0 40 0\n", Own{CPU: 0.1, Waits: 0.02}, 0.15, 0.1},
		"beside a proxy":                        {"cpu  170 0 25 5\n", Own{CPU: 1.74, Waits: 0.5}, 0.97, 1.74},
		"it waits, beside idle CPUs":            {"cpu  60 0 40 100\n", Own{CPU: 1, Waits: 0.9}, 0.5, 1},
		"it fills the CPUs and hardly waits":    {"cpu  160 0 40 0\n", Own{CPU: 2, Waits: 0.1}, 1, 2},
		"it beside what is niced":               {"cpu  10 180 10 0\n", Own{CPU: 0.2, Waits: -1}, 0.1, 0.2},
		"its own are niced":                     {"cpu  10 180 10 0\n", Own{CPU: 1.9, Niced: 1.8, Waits: -1}, 1, 1.9},
		"they were, and are no more":            {"cpu  10 180 10 0\n", Own{CPU: 1.85, Waits: 1}, 1, 1.85},
		"it hardly waits, beside what is niced": {"cpu  10 180 10 0\n", Own{CPU: 0.2, Waits: 0.05}, 0.2, 0.2},
		"some of its own are":                   {"cpu  10 180 10 0\n", Own{CPU: 0.5, Niced: 0.4, Waits: -1}, 0.3, 0.5},
	} {
		u := MachineUsage(2)
		u.Sample(at(0), []byte("cpu  0 0 0 0\ncpu0\ncpu1\n"), unknown())
		got, ok := u.Sample(at(1), []byte(c.text+"cpu0\ncpu1\n"), c.own)
		if !ok || math.Abs(got.CPUs-c.cpus) > 1e-9 || math.Abs(got.Own-c.use) > 1e-9 || got.Pressure >= 0 {
			t.Errorf("%s: %+v, want %g of the CPUs and %g CPU-seconds", name, got, c.cpus, c.use)
		}
		if c.own.CPU >= 0 && got.Lacked != c.own.Lacked || c.own.CPU < 0 && got.Lacked >= 0 {
			t.Errorf("%s: it waited for a CPU for %g s", name, got.Lacked)
		}
		if got, ok = u.Sample(at(2), []byte(idle), c.own); ok {
			t.Errorf("%s: the counters were reset, and give %+v", name, got)
		}
	}
}

// FuzzUsage checks that the result is a valid use, whatever the text.
func FuzzUsage(f *testing.F) {
	f.Add([]byte("cpu  1 2 3 4 5 6 7 8\n"), []byte("cpu  2 3 4 5 6 7 8 9\n"))
	f.Add([]byte("usage_usec 1\n"), []byte("usage_usec 18446744073709551616\n"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		for _, u := range []*Usage{MachineUsage(2), CgroupUsage(2)} {
			u.Sample(at(0), a, unknown())
			if x, ok := u.Sample(at(1), b, unknown()); ok && !(x.CPUs >= 0 && x.CPUs <= 1 && x.Own >= 0) {
				t.Errorf("%+v", x)
			}
		}
	})
}
