package descriptors

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
)

// spares is how many descriptors a Reserve has: for so many connections of the admin
// socket at the same time.
const spares = 4

// Reserve keeps spare descriptors open, to be given up when there is no other. All
// methods may be called concurrently.
type Reserve struct {
	short atomic.Bool // some are given up

	mu     sync.Mutex
	files  []*os.File // of the null device
	closed bool
}

// NewReserve opens the spare descriptors.
func NewReserve() (*Reserve, error) {
	r := &Reserve{}
	if err := r.fill(); err != nil {
		return nil, errors.Join(fmt.Errorf("keep descriptors for the admin socket: %w", err), r.Close())
	}
	return r, nil
}

// giveUp closes a spare descriptor, for the next that is opened; false: there is none.
func (r *Reserve) giveUp() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.files) - 1
	if last < 0 {
		return false
	}
	r.short.Store(true)
	_ = r.files[last].Close() // nothing was written
	r.files = r.files[:last]
	return true
}

// takeBack opens again what was given up, as far as there are descriptors. It costs
// next to nothing if nothing was.
func (r *Reserve) takeBack() {
	if r.short.Load() {
		_ = r.fill() // the next one tries again
	}
}

func (r *Reserve) fill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.files) < spares && !r.closed {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		r.files = append(r.files, f)
	}
	r.short.Store(false)
	return nil
}

// Close gives up the spare descriptors for good.
func (r *Reserve) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var err error
	for _, f := range r.files {
		err = errors.Join(err, f.Close())
	}
	r.files, r.closed = nil, true
	return err
}
