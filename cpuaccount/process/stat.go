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
	rest := bytes.TrimLeft(line[bytes.LastIndexByte(line, ')')+1:], " ")
	for at := 0; len(rest) > 0; at++ {
		var field []byte
		field, rest, _ = bytes.Cut(rest, []byte{' '})
		switch at {
		case 0:
			s.state = field[0]
			if len(field) != 1 {
				return s, errNoStat
			}
		case fieldChildUser, fieldChildSystem:
			n, err := strconv.ParseInt(string(field), 10, 64)
			if err != nil || n < 0 || n > int64(1<<62/tick) {
				return s, errNoStat
			}
			s.children += time.Duration(n) * tick
		case fieldThreads:
			if s.threads, err = strconv.Atoi(string(field)); err != nil {
				return s, errNoStat
			}
		case fieldStart:
			if s.start, err = strconv.ParseUint(string(field), 10, 64); err != nil {
				return s, errNoStat
			}
			return s, nil
		}
	}
	return s, errNoStat
}

// parseQueued reads the second field of /proc/PID/schedstat; 0: there is none.
func parseQueued(text []byte) time.Duration {
	_, rest, _ := bytes.Cut(text, []byte{' '})
	second, _, _ := bytes.Cut(rest, []byte{' '})
	d, err := strconv.ParseInt(string(second), 10, 64)
	if err != nil || d < 0 {
		return 0
	}
	return time.Duration(d)
}
