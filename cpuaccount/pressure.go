package cpuaccount

import (
	"bytes"
	"time"
)

// Throttling finds, from successive readings of a cgroup's cpu.stat, the part of the time in
// which it had no CPU because its quota was used up. It is for one goroutine.
type Throttling struct {
	periods, throttled float64
	begun              bool
}

// Sample returns the part of the quota's periods since the last reading that ended before
// their time, 0 to 1. Whatever the CPUs of the machine do, a cgroup is full in these. It is
// not ok if that cannot be told: the cgroup has no quota, or this is the first reading.
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

// Pressure finds, from successive readings of /proc/pressure/cpu or a cgroup's cpu.pressure
// (pressure stall information), the part of the time in which a process that could have used a
// CPU waited for one. It is for one goroutine.
type Pressure struct {
	at    time.Time
	total float64 // microseconds
	begun bool
}

// Sample returns that part of the time since the last reading, 0 to 1; it is not ok if that
// cannot be told.
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
