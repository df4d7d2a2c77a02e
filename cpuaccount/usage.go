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
	// Where that is not known, it is what was used at all: it was no more. Negative: nothing
	// was measured.
	Own float64
	// Lacked is for how long the backend's own processes wanted a CPU and had none, all together, in
	// seconds. Negative: that is not known.
	Lacked float64
	// Pressure is the part of the time in which a process waited for a CPU. Negative: unknown.
	Pressure float64
}

// Own is what the backend's own processes used between two looks.
type Own struct {
	CPU    float64 // CPU-seconds; negative: it is not known
	Niced  float64 // as much of the time that processes with a nice value had may be theirs
	Lacked float64 // for how long they waited for a CPU, all together, in seconds; negative: it is not known
	Waits  float64 // the part of the time in which one of them waited for a CPU; negative: unknown
}

// Usage tells from successive readings of the kernel's counters what part of the
// CPUs was used. It is for one goroutine.
type Usage struct {
	read func(u *Usage, text []byte) (reading, bool)
	cpus float64

	at    time.Time
	last  reading
	begun bool
	quota Throttling
}

// reading is what counters told, in CPU-seconds.
type reading struct {
	used  float64 // without what is niced, where that is told
	niced float64
	all   float64 // that there were; negative: it is not told
}

// MachineUsage reads /proc/stat (proc(5)) of a machine on which the backend may use this many
// CPUs: it is full when that much is used, by any program.
//
// A process with a nice value gives its CPU away at once, so the use of such processes counts
// as free, except the backend's own. Time that a hypervisor gave to other machines does not
// exist. And if the backend's processes seldom wait for a CPU, other programs are not in their
// way: those stand back, by a cgroup's weight or their scheduling class.
func MachineUsage(cpus float64) *Usage { return &Usage{read: (*Usage).readStat, cpus: cpus} }

// CgroupUsage reads the cpu.stat of a cgroup of version 2, which may use so many
// CPUs. If its quota was less, it is full by what was throttled.
func CgroupUsage(cpus float64) *Usage { return &Usage{read: (*Usage).readCgroup, cpus: cpus} }

// Sample returns what was used since the last reading, and false if that cannot be told: this
// is the first one, no time has passed, the counters began again, or the text is not what it
// should be. Pressure is not known by it.
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
	if own.Waits >= 0 { // more of it may be than was seen: the gate lowers and raises priorities with each request
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
			use.CPUs = min(use.CPUs, max(own.CPU/of, own.Waits)+beside)
		}
		use.CPUs = max(use.CPUs, own.CPU/of)
	}
	use.CPUs = min(max(use.CPUs, throttled), 1)
	return use, true
}

// beside is the largest part of the CPUs that the proxy and the system use next to a busy backend. The
// backend seldom waits for so little, and can't have it.
const beside = 0.1

// userHZ is what times in /proc are counted in, for a second.
const userHZ = 100

// readStat sums up the first line: cpu user nice system idle iowait irq softirq
// steal, in ticks. The lines cpu0, cpu1 and so on follow.
func (u *Usage) readStat(text []byte) (r reading, ok bool) {
	line, others, _ := bytes.Cut(text, []byte{'\n'})
	rest, ok := bytes.CutPrefix(line, []byte("cpu "))
	if !ok {
		return r, false
	}
	for column := range 7 { // not steal
		var x float64
		if x, rest, ok = cutNumber(rest); !ok {
			if column < 4 {
				return r, false
			}
			break // older kernels have fewer
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
func (*Usage) readCgroup(text []byte) (r reading, ok bool) {
	used, _, ok := ReadOwn(text)
	return reading{used: used, all: -1}, ok
}

// ReadOwn reads the cpu.stat of a cgroup of version 2: what it has used so far, and how much of
// that with a nice value, in CPU-seconds. Negative: the kernel doesn't report it (before Linux
// 6.13).
func ReadOwn(text []byte) (cpu, niced float64, ok bool) {
	cpu, ok = numberOf(text, "usage_usec ")
	niced, is := numberOf(text, "nice_usec ")
	if !is {
		niced = -1e6
	}
	return cpu / 1e6, niced / 1e6, ok
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

// cutNumber takes a whole number and the spaces before it.
func cutNumber(text []byte) (x float64, rest []byte, ok bool) {
	text = bytes.TrimLeft(text, " ")
	end := 0
	for end < len(text) && text[end] >= '0' && text[end] <= '9' {
		end++
	}
	n, err := strconv.ParseUint(string(text[:end]), 10, 64)
	return float64(n), text[end:], err == nil
}
