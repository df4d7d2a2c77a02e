package cpuaccount

import (
	"bytes"
	"strconv"
	"time"
)

// Use is the CPU use between two samples.
type Use struct {
	// CPUs is the fraction of the CPUs, 0 to 1, that wasn't available for a request of the backend.
	CPUs float64
	// Own is the CPU time used by the backend and by processes that work only for it, in CPU-seconds. If that is
	// unknown, it is the CPU time used by all programs, which is never less. Negative means not measured.
	Own float64
	// Lacked is the total time for which the backend's processes waited for a CPU, in seconds. Negative means
	// unknown.
	Lacked float64
	// Pressure is the fraction of the time in which any process waited for a CPU. Negative means unknown.
	Pressure float64
}

// Own is the use of the backend's own processes between two samples. Negative values mean unknown.
type Own struct {
	CPU    float64 // CPU-seconds
	Niced  float64 // CPU-seconds of processes with a nice value, an upper bound for the backend's own
	Lacked float64 // total time for which they waited for a CPU, in seconds
	Waits  float64 // the fraction of the time in which any of them waited for a CPU
}

// Usage computes, from successive readings of the kernel's counters, the fraction of the CPUs that was used. Only
// one goroutine may use it.
type Usage struct {
	read func(u *Usage, text []byte) (reading, bool)
	cpus float64

	at    time.Time
	last  reading
	begun bool
	quota Throttling
}

// reading contains the values of the counters, in CPU-seconds.
type reading struct {
	used  float64 // not counting processes with a nice value, if these are counted separately
	niced float64
	all   float64 // used and free; negative: unknown
}

// MachineUsage reads /proc/stat (proc(5)) of a machine on which the backend may use the given number of CPUs.
// The CPUs count as full if all programs together use that many.
//
// Processes with a nice value give up their CPU at once. Their use therefore counts as free, except for the
// backend's own processes. Time that a hypervisor gave to other machines doesn't count at all. If the
// backend's processes rarely wait for a CPU, the use of other programs doesn't count either: their cgroup's
// weight or scheduling class keeps them from delaying the backend.
func MachineUsage(cpus float64) *Usage { return &Usage{read: (*Usage).readStat, cpus: cpus} }

// CgroupUsage reads the cpu.stat of a cgroup (version 2) that may use the given number of CPUs. If its quota
// is smaller, Throttling shows that it is full.
func CgroupUsage(cpus float64) *Usage { return &Usage{read: (*Usage).readCgroup, cpus: cpus} }

// Sample returns the use since the last reading, except for Pressure. ok is false for the first reading, if
// no time has passed, if the counters were reset, or if the text is invalid.
func (u *Usage) Sample(now time.Time, text []byte, own Own) (use Use, ok bool) {
	is, ok := u.read(u, text)
	if !ok {
		return use, false
	}
	was, begun, passed := u.last, u.begun, now.Sub(u.at).Seconds()
	u.at, u.last, u.begun = now, is, true
	of, throttled := is.all-was.all, 0.0
	if is.all < 0 {
		of = passed * u.cpus
		throttled, _ = u.quota.Sample(text)
	}
	ofNiced := own.Niced
	if own.Waits >= 0 { // the backend's part may be larger, because the gate changes priorities with each request
		ofNiced = max(ofNiced, own.CPU)
	}
	used := is.used - was.used + min(max(0, is.niced-was.niced), ofNiced)
	if !begun || !(of > 0) || used < 0 {
		return use, false
	}
	use = Use{CPUs: used / of, Own: used, Lacked: -1, Pressure: -1}
	if own.CPU >= 0 && is.all >= 0 {
		use.Own, use.Lacked = own.CPU, own.Lacked
		if own.Waits >= 0 {
			use.CPUs = min(use.CPUs, max(own.CPU/of, own.Waits)+overhead)
		}
		use.CPUs = max(use.CPUs, own.CPU/of)
	}
	use.CPUs = min(max(use.CPUs, throttled), 1)
	return use, true
}

// overhead is the largest fraction of the CPUs that the proxy and the system need while the backend is busy. This
// fraction isn't available to the backend, although the backend's processes rarely wait for it.
const overhead = 0.1

// userHZ is the number of clock ticks per second in /proc.
const userHZ = 100

// readStat reads the first line, which contains the ticks of all CPUs together: cpu user nice system idle
// iowait irq softirq steal. A line for each CPU (cpu0, cpu1 and so on) follows.
func (u *Usage) readStat(text []byte) (r reading, ok bool) {
	line, others, _ := bytes.Cut(text, []byte{'\n'})
	rest, ok := bytes.CutPrefix(line, []byte("cpu "))
	if !ok {
		return r, false
	}
	for column := range 7 { // without steal
		var x float64
		if x, rest, ok = cutNumber(rest); !ok {
			if column < 4 {
				return r, false
			}
			break // older kernels have fewer columns
		}
		x /= userHZ
		r.all += x
		switch column {
		case 1:
			r.niced += x
		case 3, 4: // idle, iowait
		default:
			r.used += x
		}
	}
	r.all *= u.partOf(others)
	return r, true
}

// partOf returns the fraction of the machine's CPUs that the backend may use.
func (u *Usage) partOf(lines []byte) float64 {
	machine := 0.0
	for bytes.HasPrefix(lines, []byte("cpu")) {
		machine++
		_, lines, _ = bytes.Cut(lines, []byte{'\n'})
	}
	return min(1, u.cpus/machine)
}

// readCgroup reads the line that begins with usage_usec.
func (*Usage) readCgroup(text []byte) (r reading, ok bool) {
	used, _, ok := ReadOwn(text)
	return reading{used: used, all: -1}, ok
}

// ReadOwn reads the cpu.stat of a cgroup (version 2): the CPU-seconds used so far, and how many of them by
// processes with a nice value. niced is negative if cpu.stat doesn't report it (Linux before 6.13).
func ReadOwn(text []byte) (cpu, niced float64, ok bool) {
	cpu, ok = numberOf(text, "usage_usec ")
	niced, is := numberOf(text, "nice_usec ")
	if !is {
		niced = -1e6
	}
	return cpu / 1e6, niced / 1e6, ok
}

// numberOf returns the number in the line that begins with name.
func numberOf(text []byte, name string) (x float64, ok bool) {
	for len(text) > 0 {
		var line []byte
		line, text, _ = bytes.Cut(text, []byte{'\n'})
		if rest, is := bytes.CutPrefix(line, []byte(name)); is {
			x, _, ok = cutNumber(rest)
			return x, ok
		}
	}
	return 0, false
}

// cutNumber cuts off a number and the spaces before it.
func cutNumber(text []byte) (x float64, rest []byte, ok bool) {
	text = bytes.TrimLeft(text, " ")
	end := 0
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	n, err := strconv.ParseUint(string(text[:end]), 10, 64)
	return float64(n), text[end:], err == nil
}
