package process

import (
	"bytes"
	"errors"
	"strconv"
	"time"
)

// tick is the unit of what /proc tells, the same on every machine that Go runs on.
const tick = 10 * time.Millisecond

// errNoStat says that a text is none of the kernel's.
var errNoStat = errors.New("no line of /proc/PID/stat")

// stat is what is read of /proc/PID/stat, proc_pid_stat(5).
type stat struct {
	state    byte
	children time.Duration // that it has waited for, and theirs
	threads  int
	start    uint64
}

// The fields, counted from the state, which is the first one after the name. The name may
// hold blanks and parentheses.
const (
	fieldChildUser   = 13
	fieldChildSystem = 14
	fieldThreads     = 17
	fieldStart       = 19
)

func parseStat(line []byte) (s stat, err error) {
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	if len(fields) <= fieldStart || len(fields[0]) != 1 {
		return s, errNoStat
	}
	s.state = fields[0][0]
	for _, at := range [...]int{fieldChildUser, fieldChildSystem} {
		n, err := strconv.ParseInt(string(fields[at]), 10, 64)
		if err != nil || n < 0 || n > int64(1<<62/tick) {
			return s, errNoStat
		}
		s.children += time.Duration(n) * tick
	}
	if s.threads, err = strconv.Atoi(string(fields[fieldThreads])); err != nil {
		return s, errNoStat
	}
	if s.start, err = strconv.ParseUint(string(fields[fieldStart]), 10, 64); err != nil {
		return s, errNoStat
	}
	return s, nil
}
