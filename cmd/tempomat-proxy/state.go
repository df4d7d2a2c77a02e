package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"
)

// saveEvery bounds what a crash forgets of who is known.
const saveEvery = 5 * time.Minute

// memory is what a part remembers beyond a restart.
type memory interface {
	AppendBinary(b []byte) ([]byte, error)
	UnmarshalBinary(data []byte) error
}

// stateFile keeps what parts remember in a file. It holds no debts, which a
// restart forgives, and of clients nothing that could be read: only hashes, and
// the keys of those and of newcomers' passes.
type stateFile struct {
	path  string // empty: none
	parts map[string]memory
	log   *zap.Logger
}

// load gives each part what it remembered. Without a file, or with a damaged
// one, they begin anew: that is no reason not to serve.
func (f *stateFile) load() {
	if f.path == "" {
		return
	}
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	saved := map[string][]byte{}
	if err == nil {
		err = json.Unmarshal(data, &saved)
	}
	for name, part := range f.parts {
		if s, ok := saved[name]; ok {
			if e := part.UnmarshalBinary(s); e != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", name, e))
			}
		}
	}
	if err != nil {
		f.log.Warn("known clients are forgotten", zap.String("state", f.path), zap.Error(err))
	}
}

// run saves now and then until the context ends, and then once more. A file
// that cannot be written is told of once.
func (f *stateFile) run(ctx context.Context) {
	if f.path == "" {
		return
	}
	ticks := time.NewTicker(saveEvery)
	defer ticks.Stop()
	told := false
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-ticks.C:
		}
		if err := f.save(); err != nil && !told {
			told = true
			f.log.Warn("a restart will forget who is known", zap.String("state", f.path), zap.Error(err))
		}
	}
}

// save replaces the file as a whole, or leaves it as it was.
func (f *stateFile) save() error {
	saved := map[string][]byte{}
	for name, part := range f.parts {
		b, err := part.AppendBinary(nil)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		saved[name] = b
	}
	data, err := json.Marshal(saved)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o750); err != nil {
		return err
	}
	next := f.path + ".new"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return err
	}
	return os.Rename(next, f.path)
}
