//go:build !linux

package process

import (
	"errors"
	"time"
)

// Read returns the process that has that number now.
func Read(int) (ID, error) { return ID{}, errors.ErrUnsupported }

// Alive tells whether the process runs still.
func (ID) Alive() bool { return false }

// CPU returns the CPU time that the process has used since its start.
func (ID) CPU() (time.Duration, error) { return 0, errors.ErrUnsupported }

// Clock returns what whoever has the process's number now has used since its start.
func (ID) Clock() time.Duration { return 0 }

// Usage returns what the process has used since its start.
func (ID) Usage() (Usage, error) { return Usage{}, errors.ErrUnsupported }

// Handle is a process whose files are kept open.
type Handle struct{}

// Open opens the files of the process that has that number now.
func Open(int) (*Handle, error) { return nil, errors.ErrUnsupported }

// ID is the process.
func (*Handle) ID() ID { return ID{} }

// Usage returns what the process has used since its start.
func (*Handle) Usage() (Usage, error) { return Usage{}, errors.ErrUnsupported }

// Close closes the files.
func (*Handle) Close() {}
