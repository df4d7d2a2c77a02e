package host

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tempomat/cpuaccount"
)

// usageEvery is how often the CPU use is measured.
const usageEvery = 500 * time.Millisecond

// mostAtOnce is of how many processes it is read what they used before the next look is left
// out: each takes some 10 µs, which together are to be a hundredth of the time at most.
const mostAtOnce = 512

// UsageMeter measures what part of the CPUs is used.
type UsageMeter struct {
	// Lost, if set, is told when the counters can no longer be read; again only
	// after they could be in the meantime. Run calls it.
	Lost func(error)

	// Steps, if set, reports whether tempomat raises the nice values of the backend's
	// processes: niced use may then be theirs, if they are unknown.
	Steps func() bool

	use, stalls, own string // files of the kernel's; own is of the container that this process and the backend are in, empty: none

	lost     bool
	usage    *cpuaccount.Usage
	backend  *Backend // nil: what it uses is not told apart
	quota    cpuaccount.Throttling
	pressure cpuaccount.Pressure
}

// OpenUsage reads the counters of this machine, or, if cgroup is not empty, those
// of that directory. The backend may use so many CPUs. Of the machine's, what the backend itself
// uses is told apart as far as it is seen; nil: it is not looked for.
func OpenUsage(cgroup string, cpus float64, backend *Backend) (*UsageMeter, error) {
	m := &UsageMeter{use: filepath.Join(cgroup, "cpu.stat"), stalls: filepath.Join(cgroup, "cpu.pressure"), usage: cpuaccount.CgroupUsage(cpus)}
	if cgroup == "" {
		m.use, m.stalls, m.usage = "/proc/stat", "/proc/pressure/cpu", cpuaccount.MachineUsage(cpus)
		m.own, m.backend = quotaFile("/proc/self/cgroup", "/sys/fs/cgroup"), backend
	}
	if _, err := os.ReadFile(m.use); err != nil {
		return nil, fmt.Errorf("measure the CPU use: %w", err)
	}
	return m, nil
}

// quotaFile is the cpu.stat of the container that this process is in; empty: it is in none, or
// in one without a quota. A process outside containers has a cgroup for its service, and the
// backend isn't in it.
func quotaFile(self, cgroups string) string {
	name := filepath.Join(cgroups, "cpu.stat")
	if strings.TrimSpace(string(read(self))) != "0::/" || !strings.Contains(string(read(name)), "nr_throttled ") {
		return ""
	}
	return name
}

// Run tells the use twice a second until the context ends. A reading that fails is left out.
func (m *UsageMeter) Run(ctx context.Context, tell func(now time.Time, use cpuaccount.Use)) {
	ticks := time.NewTicker(usageEvery)
	defer ticks.Stop()
	m.sample(time.Now()) // what the first one is compared with
	rest := 0            // looks that are left out
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			if rest--; rest >= 0 {
				continue
			}
			if use, ok := m.sample(now); ok {
				tell(now, use)
			}
			rest = m.backend.size() / mostAtOnce
		}
	}
}

func (m *UsageMeter) sample(now time.Time) (use cpuaccount.Use, ok bool) {
	pressure, told := m.pressure.Sample(now, read(m.stalls))
	throttled := 0.0
	if m.own != "" {
		throttled, _ = m.quota.Sample(read(m.own))
	}
	own := m.backend.own(now)
	if own.CPU < 0 && m.Steps != nil && m.Steps() {
		own.Niced = math.Inf(1)
	}
	text, err := os.ReadFile(m.use)
	if err != nil && !m.lost && m.Lost != nil {
		m.Lost(fmt.Errorf("measure the CPU use: %w", err))
	}
	m.lost = err != nil
	if use, ok = m.usage.Sample(now, text, own); told {
		use.Pressure = pressure
	}
	use.CPUs = max(use.CPUs, throttled) // of what is left of the machine, nothing can be had
	return use, ok
}

// read is what a file of the kernel's tells; nothing, where there is none: a kernel may be without.
func read(name string) []byte {
	text, _ := os.ReadFile(name)
	return text
}
