package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.uber.org/zap"
)

const (
	// saveEvery bounds what a crash forgets of who is known.
	saveEvery = 5 * time.Minute
	// largestState bounds what is read of a file, in bytes; a usual one has 1.5 MB.
	largestState = 64 << 20
)

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
	data, err := readOwn(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	saved := map[string][]byte{}
	if err == nil {
		err = json.Unmarshal(data, &saved)
	}
	f.tell(errors.Join(err, f.remember(saved)))
}

// remember gives each part what it remembered, if there is something.
func (f *stateFile) remember(saved map[string][]byte) (err error) {
	for name, part := range f.parts {
		if s, ok := saved[name]; ok {
			if e := part.UnmarshalBinary(s); e != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", name, e))
			}
		}
	}
	return err
}

func (f *stateFile) tell(err error) {
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

// collect is what all parts remember.
func (f *stateFile) collect() (map[string][]byte, error) {
	saved := make(map[string][]byte, len(f.parts))
	for name, part := range f.parts {
		b, err := part.AppendBinary(nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		saved[name] = b
	}
	return saved, nil
}

// save replaces the file as a whole, or leaves it as it was.
func (f *stateFile) save() error {
	saved, err := f.collect()
	if err != nil {
		return err
	}
	data, err := json.Marshal(saved)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o750); err != nil {
		return err
	}
	return replaceFile(f.path, data)
}

// replaceFile puts a file in the place of another one. It writes nothing through a link
// and into no file that somebody else has made, should others be able to write in the
// directory; a link in place of the file itself is replaced, not followed.
func replaceFile(path string, data []byte) error {
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that was killed
		return err
	}
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return nil
}

// readOwn reads a file that nobody but this process's user, and root, can have written:
// what it says is believed.
func readOwn(path string) ([]byte, error) {
	// What is opened could be a pipe, and nobody write to it.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > largestState {
		return nil, fmt.Errorf("%s is not a file of at most %d MB", path, largestState>>20)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if ok && owner.Uid != 0 && int64(owner.Uid) != int64(os.Geteuid()) || info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("%s can be written by others, and so is not believed", path)
	}
	return io.ReadAll(io.LimitReader(file, largestState))
}
