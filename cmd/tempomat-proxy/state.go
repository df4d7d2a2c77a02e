package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"tempomat/cmd/internal/daemon"
	"tempomat/proxy/admin/api"
)

// memory is a part of the proxy whose knowledge is saved across restarts.
type memory interface {
	AppendBinary(b []byte) ([]byte, error)
	UnmarshalBinary(data []byte) error
}

// stateFile saves the memory of some parts in a file. The file contains no debts, because a restart forgives
// them. It contains hashes of clients, the keys of these hashes and of newcomers' passes, and the networks
// and keys that robots' operators publish. Only the pins and the history contain the names of clients.
type stateFile struct {
	path  string // empty: none
	parts map[string]memory
	log   *zap.Logger

	saving sync.Mutex // held while the file is replaced, because a handover and run may save at the same time
}

const (
	stateVersion = 2
	// largestState is the most bytes that are read. A typical file has 5 MB.
	largestState = 64 << 20
	// saveEvery is the time between two saves. A crash loses no more than that.
	saveEvery = 5 * time.Minute
)

// saved is the content of the file, as gob.
type saved struct {
	Version int
	Parts   map[string][]byte
}

// load restores the knowledge of the parts. If there is no file, or it can't be read, the parts start without
// knowledge, because the proxy should still serve.
func (f *stateFile) load() {
	if f.path == "" {
		return
	}
	if err := f.read(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.log.Warn("can't use the state file, so known clients and the history are forgotten", zap.String("file", f.path), zap.Error(err))
	}
}

func (f *stateFile) read() error {
	text, err := readOwn(f.path, largestState)
	if err != nil {
		return err
	}
	var s saved
	if err := gob.NewDecoder(bytes.NewReader(text)).Decode(&s); err != nil {
		return fmt.Errorf("the file is damaged, or from a different release: %w", err)
	}
	if s.Version != stateVersion {
		return fmt.Errorf("the file has version %d, but this release reads only version %d", s.Version, stateVersion)
	}
	for name, part := range f.parts {
		if data, has := s.Parts[name]; has {
			if e := part.UnmarshalBinary(data); e != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", name, e))
			}
		}
	}
	return err
}

// readOwn reads a file. most is the largest size, in bytes. readOwn fails if users other than this process's user and
// root can write the file, because its content can't be trusted then. It doesn't follow a symbolic link.
func readOwn(path string, most int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0) // doesn't block if the file is a pipe
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("it is not a regular file, or it is larger than %d MB", most>>20)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if ok && owner.Uid != 0 && int64(owner.Uid) != int64(os.Geteuid()) || info.Mode().Perm()&0o022 != 0 {
		return nil, errors.New("users other than root and this process's user can write to it")
	}
	return io.ReadAll(io.LimitReader(file, most))
}

// save replaces the whole file, or leaves it unchanged. Only this process's user may read the file.
func (f *stateFile) save() error {
	if f.path == "" {
		return nil
	}
	f.saving.Lock()
	defer f.saving.Unlock()
	s := saved{stateVersion, make(map[string][]byte)}
	for name, part := range f.parts {
		data, err := part.AppendBinary(nil)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.Parts[name] = data
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o750); err != nil {
		return err
	}
	return daemon.ReplaceFile(f.path, 0o600, daemon.Keep, daemon.Keep, func(w io.Writer) error { return gob.NewEncoder(w).Encode(&s) })
}

// run saves every saveEvery until the context ends, and then once more. It logs only the first failure.
func (f *stateFile) run(ctx context.Context) {
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
			f.log.Warn("can't save the state, so a restart will forget which clients are known", zap.String("file", f.path), zap.Error(err))
		}
	}
}

// complain makes the directory of the state file, and warns if the state can't be saved there. systemd creates the
// directory for the service, but it may be missing if the program was started by hand.
func (f *stateFile) complain() {
	if f.path == "" {
		return
	}
	dir := filepath.Dir(f.path)
	err := os.MkdirAll(dir, 0o750)
	if err == nil {
		err = syscall.Access(dir, writeAndPass)
	}
	if err != nil {
		f.log.Warn("can't save the state in the directory; a restart will forget which clients are known. "+
			"Create it (install -d -o USER -m 750 DIRECTORY), set another file with the key state or TEMPOMAT_STATE, or set state: \"off\"",
			zap.String("directory", dir), zap.Error(err))
	}
}

// writeAndPass is W_OK | X_OK of access(2).
const writeAndPass = 2 | 1

// saveState saves the state file. Before that, it adds the requests that have just ended to the history.
func (s *sidecar) saveState() error {
	s.takeIn(time.Now())
	return s.state.save()
}

// pastHours returns the function that gives the admin API the history, or nil if none is kept.
func (s *sidecar) pastHours() func(hours int) api.HistoryReply {
	if s.history == nil {
		return nil
	}
	return s.history.Reply
}
