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

	// Steps, if set, tells whether somebody raises the nice values of the backend's processes:
	// then what is niced may be theirs where they are not known.
	Steps func() bool

	lost     bool
	use      *counters
	usage    *cpuaccount.Usage
	backend  *Backend  // nil: what it uses is not told apart
	own      *counters // of the container that this process and the backend are in; nil: none
	quota    cpuaccount.Throttling
	stalls   *counters // nil: the kernel does not tell
	pressure cpuaccount.Pressure
}

// OpenUsage opens the counters of this machine, or, if cgroup is not empty, those
// of that directory. The backend may use so many CPUs. Of the machine's, what the backend itself
// uses is told apart as far as it is seen; nil: it is not looked for.
func OpenUsage(cgroup string, cpus float64, backend *Backend) (*UsageMeter, error) {
	name, pressure, usage := "/proc/stat", "/proc/pressure/cpu", cpuaccount.MachineUsage(cpus)
	if cgroup != "" {
		name, usage = filepath.Join(cgroup, "cpu.stat"), cpuaccount.CgroupUsage(cpus)
		pressure = filepath.Join(cgroup, "cpu.pressure")
	}
	use, err := openCounters(name)
	if err != nil {
		return nil, fmt.Errorf("measure the CPU use: %w", err)
	}
	m := &UsageMeter{use: use, usage: usage}
	m.stalls, _ = openCounters(pressure) // a kernel may be without
	if cgroup == "" {
		m.own = openOwn("/proc/self/cgroup", "/sys/fs/cgroup")
		m.backend = backend
	}
	return m, nil
}

// openOwn opens the counters of the container that this process is in; nil: it is in none,
// or in one without a quota. A process of the machine itself has a cgroup for its service,
// in which the backend is not.
func openOwn(self, cgroups string) *counters {
	text, err := os.ReadFile(self)
	if err != nil || strings.TrimSpace(string(text)) != "0::/" {
		return nil
	}
	c, err := openCounters(filepath.Join(cgroups, "cpu.stat"))
	if err != nil {
		return nil
	}
	if !strings.Contains(string(c.read()), "nr_throttled ") {
		c.close()
		return nil
	}
	return c
}

// Run tells the use twice a second until the context ends, and closes
// the counters. A reading that fails is left out.
func (m *UsageMeter) Run(ctx context.Context, tell func(now time.Time, use cpuaccount.Use)) {
	defer m.close()
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

func (m *UsageMeter) close() {
	for _, c := range []*counters{m.use, m.own, m.stalls} {
		c.close()
	}
}

func (m *UsageMeter) sample(now time.Time) (use cpuaccount.Use, ok bool) {
	pressure, told := m.pressure.Sample(now, m.stalls.read())
	throttled, _ := m.quota.Sample(m.own.read())
	own := m.backend.own(now)
	if own.CPU < 0 && m.Steps != nil && m.Steps() {
		own.Niced = math.Inf(1)
	}
	if use, ok = m.usage.Sample(now, m.read(), own); told {
		use.Pressure = pressure
	}
	use.CPUs = max(use.CPUs, throttled) // of what is left of the machine, nothing can be had
	return use, ok
}

// read returns what the counters of the use tell.
func (m *UsageMeter) read() []byte {
	text := m.use.read()
	switch {
	case text != nil:
		m.lost = false
	case !m.lost:
		if m.lost = true; m.Lost != nil {
			m.Lost(fmt.Errorf("measure the CPU use: %w", m.use.err))
		}
	}
	return text
}

// counters are a file of the kernel's that is read again and again. Of a nil one nothing can
// be read.
type counters struct {
	file *os.File
	err  error          // why nothing was read
	text [64 << 10]byte // what is wanted stands at the beginning, a line for each CPU
}

func openCounters(name string) (*counters, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return &counters{file: f}, nil
}

// read returns what they tell; nil: nothing. If they cannot be read it opens them
// again, for the next time: a restart of the backend's service removes its cgroup
// and makes another one of that name.
func (c *counters) read() []byte {
	if c == nil {
		return nil
	}
	n, err := c.file.ReadAt(c.text[:], 0)
	if n > 0 { // err is io.EOF
		return c.text[:n]
	}
	c.err = err
	if f, err := os.Open(c.file.Name()); err == nil {
		_ = c.file.Close() // it was only read
		c.file = f
	}
	return nil
}

func (c *counters) close() {
	if c != nil {
		_ = c.file.Close() // it was only read
	}
}
