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

// usageEvery is the pause between two readings of the CPU use.
const usageEvery = 500 * time.Millisecond

// UsageMeter measures how much of the CPUs is in use.
type UsageMeter struct {
	// Lost is called once whenever the counters become unreadable. It may be nil. Run calls it.
	Lost func(error)

	// Steps reports whether tempomat raises nice values of the backend's processes. If it does, and these
	// processes are unknown, the CPU time of any niced process may be the backend's. Steps may be nil.
	Steps func() bool

	use, stalls, own string // paths of the kernel's files; own is the cpu.stat of the container that holds this process and the backend; empty: there is none

	lost     bool
	usage    *cpuaccount.Usage
	backend  *Backend // measures the backend's own use; nil: its use is unknown
	quota    cpuaccount.Throttling
	pressure cpuaccount.Pressure
}

// OpenUsage reads the counters of the machine, or those in a cgroup's directory if one is given. cpus is how
// many CPUs the backend may use. On the machine, backend shows which part of the use is the backend's own; it
// may be nil.
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

// quotaFile returns the cpu.stat of this process's container; empty: there is no container, or it has no
// quota. Outside a container, a service has a cgroup of its own, which doesn't contain the backend.
func quotaFile(self, cgroups string) string {
	name := filepath.Join(cgroups, "cpu.stat")
	if strings.TrimSpace(string(read(self))) != "0::/" || !strings.Contains(string(read(name)), "nr_throttled ") {
		return ""
	}
	return name
}

// Run passes the CPU use to tell twice a second until the context ends. It skips a reading that fails.
func (m *UsageMeter) Run(ctx context.Context, tell func(now time.Time, use cpuaccount.Use)) {
	ticks := time.NewTicker(usageEvery)
	defer ticks.Stop()
	m.sample(time.Now()) // the first reading only begins the comparison
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			if use, ok := m.sample(now); ok {
				tell(now, use)
			}
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
	use.CPUs = max(use.CPUs, throttled) // while the container is throttled, it can't use the machine's idle CPUs
	return use, ok
}

// read returns the content of a kernel file, or nothing if this kernel doesn't have the file.
func read(name string) []byte {
	text, _ := os.ReadFile(name)
	return text
}
