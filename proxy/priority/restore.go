package priority

import (
	"errors"
	"io/fs"
	"os"

	"tempomat/cpuaccount/process"
)

// Left is what became of processes that proxies had lowered and left behind.
type Left struct {
	Restored  int
	Ended     int // the number may be another process's now, which was not touched
	Abandoned int // somebody else has changed their priority since
	Failed    int // could not be put back; they stay in the record
	Busy      int // segments of the record that running proxies hold
}

// Restore puts back what proxies have left behind that have ended, by the record in the
// file at path. If there is none there is nothing to do. The error is the file's.
func Restore(path string) (Left, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return Left{}, nil
	}
	file, err := openFile(path)
	if err != nil {
		return Left{}, err
	}
	left := file.restore(system{})
	return left.Left, errors.Join(left.failure, file.close())
}

// result is what became of a process.
type result uint8

const (
	restored result = iota
	same            // it had its own already
	ended
	abandoned
	failed
)

// putBack gives a process the priority that it had, if it is the same one and has what it
// was given, or, if this did not come about, what it had right before.
func putBack(k kernel, e entry) result {
	now, err := k.Nice(e.id)
	switch {
	case err != nil:
		return ended
	case now == e.own:
		return same
	case now != e.set && now != e.before:
		return abandoned
	case k.SetNice(e.id.PID, e.own) == nil:
		return restored
	}
	return failed
}

// entry is a line of the record.
type entry struct {
	id     process.ID
	own    int // the nice value that the process had
	before int // what it had before it was changed last
	set    int // what it was given then
}
