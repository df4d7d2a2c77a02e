package cpuaccount

import (
	"bytes"
	"time"
)

// Throttling computes, from successive readings of a cgroup's cpu.stat, the part of the time in which the cgroup's
// quota was used up. Only one goroutine may use it.
type Throttling struct {
	periods, throttled float64
	begun              bool
}

// Sample returns the fraction of the quota's periods since the last reading in which the cgroup was
// throttled, 0 to 1. While it is throttled, the cgroup's CPUs are full, even if the machine's CPUs aren't. ok
// is false if the cgroup has no quota, and for the first reading.
func (t *Throttling) Sample(text []byte) (part float64, ok bool) {
	periods, is := numberOf(text, "nr_periods ")
	throttled, also := numberOf(text, "nr_throttled ")
	if !is || !also {
		return 0, false
	}
	of, were, begun := periods-t.periods, throttled-t.throttled, t.begun
	t.periods, t.throttled, t.begun = periods, throttled, true
	if !begun || of <= 0 || were < 0 {
		return 0, false
	}
	return min(were/of, 1), true
}

// Pressure computes, from successive readings of /proc/pressure/cpu or of a cgroup's cpu.pressure (pressure stall
// information), the part of the time in which a process waited for a CPU. Only one goroutine may use it.
type Pressure struct {
	at    time.Time
	total float64 // microseconds
	begun bool
}

// Sample returns the fraction of the time since the last reading in which a process waited for a CPU, 0 to
// 1. ok is false for the first reading, or if the text is invalid.
func (p *Pressure) Sample(now time.Time, text []byte) (part float64, ok bool) {
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	rest, is := bytes.CutPrefix(line, []byte("some "))
	_, rest, has := bytes.Cut(rest, []byte("total="))
	total, _, isNumber := cutNumber(rest)
	if !is || !has || !isNumber {
		return 0, false
	}
	passed, more, begun := now.Sub(p.at).Seconds()*1e6, total-p.total, p.begun
	p.at, p.total, p.begun = now, total, true
	if !begun || !(passed > 0) || more < 0 {
		return 0, false
	}
	return min(more/passed, 1), true
}
