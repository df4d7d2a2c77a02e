package process

import (
	"bytes"
	"errors"
	"strconv"
	"time"
)

// tick is the unit of times in /proc. It is the same on every machine that Go runs on.
const tick = 10 * time.Millisecond

// errNoStat means that the text didn't come from the kernel.
var errNoStat = errors.New("not a line of /proc/PID/stat")

// Stat is the content of /proc/PID/stat; see proc_pid_stat(5).
type Stat struct {
	PID, Parent int
	Name        []byte // refers to the line's memory
	State       byte
	Own         time.Duration // CPU time of its threads, in steps of 10 ms
	Children    time.Duration // CPU time of its descendants that were waited for
	Nice        int
	Threads     int
	Start       uint64
}

// ParseStat reads "7 (name) S 1 …". The name may contain any characters.
func ParseStat(line []byte) (s Stat, err error) {
	s.Name, err = s.parse(line)
	return s, err
}

// parse reads everything except the name, which it returns, so the line doesn't escape to the heap.
func (s *Stat) parse(line []byte) (name []byte, err error) {
	begin, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if begin < 1 || end < begin {
		return nil, errNoStat
	}
	name = line[begin+1 : end]
	if s.PID, err = strconv.Atoi(string(line[:begin-1])); err != nil {
		return name, errNoStat
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
			return name, err
		}
		if err := s.take(column, field); err != nil {
			return name, err
		}
	}
	return name, errNoStat
}

// take stores the field of a column, as numbered in proc_pid_stat(5).
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

// ParseQueued reads the second field of /proc/PID/schedstat, the time for which the first thread waited
// for a CPU.
func ParseQueued(text []byte) (d time.Duration, ok bool) {
	_, rest, _ := bytes.Cut(text, []byte{' '})
	second, _, _ := bytes.Cut(rest, []byte{' '})
	n, err := strconv.ParseInt(string(second), 10, 64)
	return time.Duration(n), err == nil && n >= 0
}
