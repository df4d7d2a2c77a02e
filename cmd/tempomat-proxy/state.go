package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"

	"tempomat/proxy/savedfile"
)

const (
	// saveEvery bounds what a crash forgets of who is known.
	saveEvery = 5 * time.Minute
	// largestState bounds what is read of a file, in bytes; a usual one has 1.5 MB.
	largestState = 64 << 20
	// The state file is of this kind and version.
	stateKind    = "state"
	stateVersion = 1
)

// memory is what a part remembers beyond a restart.
type memory interface {
	AppendBinary(b []byte) ([]byte, error)
	UnmarshalBinary(data []byte) error
}

// stateFile keeps what parts remember in a file. It holds no debts, which a
// restart forgives, and of clients nothing that could be read but the pins: only
// hashes, and the keys of those and of newcomers' passes.
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
	data, err := savedfile.ReadOwn(f.path, largestState)
	if errors.Is(err, fs.ErrNotExist) {
		f.complain()
		return
	}
	var saved map[string][]byte
	if err == nil {
		saved, err = decodeState(data)
	}
	f.tell(errors.Join(err, f.remember(saved)))
}

// complain says at once, and not only when it is saved for the first time, that a state cannot
// be saved: systemd makes its directory, a start by hand does not.
func (f *stateFile) complain() {
	dir := filepath.Dir(f.path)
	if err := syscall.Access(dir, writeAndPass); err != nil {
		f.log.Warn("no state can be saved, so a restart will forget who is known: this process may not write into the directory. "+
			"Make it (install -d -o USER -m 750 DIRECTORY), name another file by the key state or TEMPOMAT_STATE, or set state: \"off\"",
			zap.String("directory", dir), zap.Error(err))
	}
}

// writeAndPass is W_OK and X_OK of access(2).
const writeAndPass = 2 | 1

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

// run saves now and then until the context ends, and then once more.
func (f *stateFile) run(ctx context.Context) {
	if f.path == "" {
		return
	}
	saveRegularly(ctx, saveEvery, f.save, func(err error) {
		f.log.Warn("a restart will forget who is known", zap.String("state", f.path), zap.Error(err))
	})
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
	parts := make([]savedfile.Part, 0, len(saved))
	for _, name := range slices.Sorted(maps.Keys(saved)) {
		parts = append(parts, savedfile.Part{Name: name, Data: saved[name]})
	}
	return savedfile.Replace(f.path, func(w io.Writer) error {
		return savedfile.Write(w, stateKind, stateVersion, parts)
	})
}

// decodeState also reads the form of releases that had no checksums: JSON.
func decodeState(text []byte) (map[string][]byte, error) {
	saved := map[string][]byte{}
	if !savedfile.IsSaved(text) {
		if err := json.Unmarshal(text, &saved); err != nil {
			return nil, savedfile.ErrForeign
		}
		return saved, nil
	}
	parts, err := savedfile.Decode(text, stateKind, stateVersion)
	for _, p := range parts {
		saved[p.Name] = p.Data
	}
	return saved, err
}
