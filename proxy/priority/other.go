//go:build !linux

package priority

import (
	"errors"
	"os"

	"tempomat/cpuaccount/process"
)

type system struct{}

func (system) Nice(process.ID) (int, error) { return 0, errors.ErrUnsupported }
func (system) SetNice(int, int) error       { return errors.ErrUnsupported }
func (system) Alone(int) bool               { return false }

func probe() (int, error) { return 0, errors.ErrUnsupported }

func lock(*os.File, int, int) bool { return false }

func unlock(*os.File, int, int) {}
