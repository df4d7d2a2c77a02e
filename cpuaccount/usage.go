package cpuaccount

import (
	"bytes"
	"strconv"
	"time"
)

// Use is what was seen of the CPUs between two looks.
type Use struct {
	// CPUs is the part of them, 0 to 1, that a request of the backend's would have had to
	// wait for.
	CPUs float64
	// Own is what the backend itself used, with what computes for it alone, in CPU-seconds.
	// Negative: that is not known.
	Own float64
	// Pressure is the part of the time in which somebody waited for a CPU. Negative: that is
	// not known.
	Pressure float64
}

// Usage tells from successive readings of the kernel's counters what part of the
// CPUs was used. It is for one goroutine.
type Usage struct {
	read func(u *Usage, text []byte) (used, all float64, ok bool) // seconds; all < 0: it is not told
	cpus float64

	at        time.Time
	used, all float64
	begun     bool
	quota     Throttling
}

// MachineUsage reads /proc/stat (proc(5)) of a machine of whose CPUs the backend
// may use so many: it is full when as much as that is used, by whomever. Time
// that a hypervisor gave to others counts as used: it cannot be had.
func MachineUsage(cpus float64) *Usage { return &Usage{read: (*Usage).readStat, cpus: cpus} }

// CgroupUsage reads the cpu.stat of a cgroup of version 2, which may use so many
// CPUs. If its quota was less, it is full by what was throttled.
func CgroupUsage(cpus float64) *Usage { return &Usage{read: (*Usage).readCgroup, cpus: cpus} }

// Sample returns the part used since the last reading, 0 to 1, and false if that
// cannot be told: this is the first one, no time has passed, the counters began
// anew, or the text is not what it should be.
func (u *Usage) Sample(now time.Time, text []byte) (use float64, ok bool) {
	used, all, ok := u.read(u, text)
	if !ok {
		return 0, false
	}
	of, throttled := all-u.all, 0.0
	if all < 0 {
		of = now.Sub(u.at).Seconds() * u.cpus
		throttled, _ = u.quota.Sample(text)
	}
	part, begun := (used-u.used)/of, u.begun
	u.at, u.used, u.all, u.begun = now, used, all, true
	if !begun || !(of > 0) || part < 0 {
		return 0, false
	}
	return min(max(part, throttled), 1), true
}

// readStat sums up the first line: cpu user nice system idle iowait irq softirq
// steal, in ticks, of which only their proportion matters. The lines cpu0, cpu1 and
// so on follow.
func (u *Usage) readStat(text []byte) (used, all float64, ok bool) {
	line, others, _ := bytes.Cut(text, []byte{'\n'})
	rest, ok := bytes.CutPrefix(line, []byte("cpu "))
	if !ok {
		return 0, 0, false
	}
	for column := range 8 {
		var x float64
		if x, rest, ok = cutNumber(rest); !ok {
			return used, all * u.partOf(others), column >= 4 // older kernels have fewer
		}
		all += x
		if column != 3 && column != 4 { // idle, iowait
			used += x
		}
	}
	return used, all * u.partOf(others), true
}

// partOf is the part of the machine's CPUs that the backend may use.
func (u *Usage) partOf(lines []byte) float64 {
	machine := 0.0
	for bytes.HasPrefix(lines, []byte("cpu")) {
		machine++
		_, lines, _ = bytes.Cut(lines, []byte{'\n'})
	}
	return min(1, u.cpus/machine)
}

// readCgroup finds the line usage_usec.
func (*Usage) readCgroup(text []byte) (used, all float64, ok bool) {
	x, ok := numberOf(text, "usage_usec ")
	return x / 1e6, -1, ok
}

// numberOf is the number of the line that begins so.
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

// cutNumber takes a whole number and the blanks before it.
func cutNumber(text []byte) (x float64, rest []byte, ok bool) {
	text = bytes.TrimLeft(text, " ")
	end := 0
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	n, err := strconv.ParseUint(string(text[:end]), 10, 64)
	return float64(n), text[end:], err == nil
}
