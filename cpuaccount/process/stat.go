package process

import (
	"bytes"
	"errors"
	"strconv"
	"time"
)

// tick is the unit of what /proc tells, the same on every machine that Go runs on.
const tick = 10 * time.Millisecond

// errNoStat: the text is not the kernel's.
var errNoStat = errors.New("no line of /proc/PID/stat")

// Stat is what /proc/PID/stat tells, proc_pid_stat(5).
type Stat struct {
	PID, Parent int
	Name        []byte // a part of the line
	State       byte
	Own         time.Duration // CPU time of its threads, in steps of 10 ms
	Children    time.Duration // of the children that it has waited for, and theirs
	Nice        int
	Threads     int
	Start       uint64
}

// ParseStat reads "7 (name) S 1 …": the name may have any characters.
func ParseStat(line []byte) (s Stat, err error) {
	begin, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if begin < 1 || end < begin {
		return s, errNoStat
	}
	s.Name = line[begin+1 : end]
	if s.PID, err = strconv.Atoi(string(line[:begin-1])); err != nil {
		return s, errNoStat
	}
	rest := bytes.TrimLeft(line[end+1:], " ")
	for column := 3; len(rest) > 0; column++ {
		var field []byte
		field, rest, _ = bytes.Cut(rest, []byte{' '})
		if column == 3 {
			s.State = field[0]
			continue
		}
		if column == 22 {
			s.Start, err = strconv.ParseUint(string(field), 10, 64)
			return s, err
		}
		if err := s.take(column, field); err != nil {
			return s, err
		}
	}
	return s, errNoStat
}

// take takes in the field of a column, as proc_pid_stat(5) counts them.
func (s *Stat) take(column int, field []byte) error {
	const parent, user, childrenSystem, nice, threads = 4, 14, 17, 19, 20
	if column != parent && column != nice && column != threads && (column < user || column > childrenSystem) {
		return nil
	}
	n, err := strconv.ParseInt(string(field), 10, 64)
	switch {
	case err != nil:
		return errNoStat
	case column == parent:
		s.Parent = int(n)
	case column == nice:
		s.Nice = int(n)
	case column == threads:
		s.Threads = int(n)
	case n < 0 || n > int64(1<<62/tick):
		return errNoStat
	case column < childrenSystem-1:
		s.Own += time.Duration(n) * tick
	default:
		s.Children += time.Duration(n) * tick
	}
	return nil
}

// ParseQueued reads the second field of /proc/PID/schedstat, for how long the first thread was ready to run
// and had no CPU; not ok: there is none.
func ParseQueued(text []byte) (d time.Duration, ok bool) {
	_, rest, _ := bytes.Cut(text, []byte{' '})
	second, _, _ := bytes.Cut(rest, []byte{' '})
	n, err := strconv.ParseInt(string(second), 10, 64)
	return time.Duration(n), err == nil && n >= 0
}
