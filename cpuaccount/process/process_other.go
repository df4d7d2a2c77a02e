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

// Usage returns what the process has used since its start.
func (ID) Usage() (Usage, error) { return Usage{}, errors.ErrUnsupported }

// Look returns the process that has that number now, and what it has used.
func Look(int) (ID, Usage, error) { return ID{}, Usage{}, errors.ErrUnsupported }
