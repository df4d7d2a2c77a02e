package proxy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tempomat/cpuaccount"
)

// usageEvery is how often the CPU use is measured.
const usageEvery = 500 * time.Millisecond

// UsageMeter measures what part of the CPUs is used.
type UsageMeter struct {
	// Lost, if set, is told when the counters can no longer be read; again only
	// after they could be meanwhile. Run calls it.
	Lost func(error)

	lost  bool
	file  *os.File
	usage *cpuaccount.Usage
	text  [64 << 10]byte // what is wanted stands at the beginning, a line for each CPU
}

// OpenUsage opens the counters of this machine, or, if cgroup is not empty, those
// of that directory. The backend may use so many CPUs.
func OpenUsage(cgroup string, cpus float64) (*UsageMeter, error) {
	name, usage := "/proc/stat", cpuaccount.MachineUsage(cpus)
	if cgroup != "" {
		name, usage = filepath.Join(cgroup, "cpu.stat"), cpuaccount.CgroupUsage(cpus)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("measure the CPU use: %w", err)
	}
	return &UsageMeter{file: f, usage: usage}, nil
}

// Run tells the use, 0 to 1, twice a second until the context ends, and closes
// the counters. A reading that fails is left out.
func (m *UsageMeter) Run(ctx context.Context, tell func(now time.Time, use float64)) {
	defer func() { _ = m.file.Close() }() // it was only read
	ticks := time.NewTicker(usageEvery)
	defer ticks.Stop()
	m.usage.Sample(time.Now(), m.read()) // what the first one is compared with
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticks.C:
			if use, ok := m.usage.Sample(now, m.read()); ok {
				tell(now, use)
			}
		}
	}
}

// read returns what the counters tell. If they cannot be read it opens them
// anew, for the next time: a restart of the backend's service removes its cgroup
// and makes another one of that name.
func (m *UsageMeter) read() []byte {
	n, err := m.file.ReadAt(m.text[:], 0)
	if n > 0 { // err is io.EOF
		m.lost = false
		return m.text[:n]
	}
	if !m.lost && m.Lost != nil {
		m.Lost(fmt.Errorf("measure the CPU use: %w", err))
	}
	m.lost = true
	if f, err := os.Open(m.file.Name()); err == nil {
		_ = m.file.Close() // it was only read
		m.file = f
	}
	return nil
}
