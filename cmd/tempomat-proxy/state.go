package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/telemetry"
	"tempomat/proxy/telemetry/book"
)

// stateFile keeps what parts remember in a file.
type stateFile struct {
	path     string // empty: none
	kind     string
	version  int
	most     int64         // bytes that are read of it
	every    time.Duration // is how often it is saved: what a crash forgets
	collect  func() ([]savedPart, error)
	remember func([]savedPart) error
	log      *zap.Logger
	// What is said where the file cannot be read, or written.
	unread, unsaved string
}

// load gives the parts what they remembered. Without a file, or with a damaged one or one of another release, they
// begin again: that is no reason not to serve.
func (f *stateFile) load() {
	if f.path == "" {
		return
	}
	text, err := readOwn(f.path, f.most)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = f.take(text)
	}
	f.tell(err)
}

// take gives the parts what a file's text has.
func (f *stateFile) take(text []byte) error {
	parts, err := decodeSaved(text, f.kind, f.version)
	if err != nil {
		return err
	}
	return f.remember(parts)
}

func (f *stateFile) tell(err error) {
	if err != nil {
		f.log.Warn(f.unread, zap.String("file", f.path), zap.Error(err))
	}
}

// write writes the file's text.
func (f *stateFile) write(w io.Writer) error {
	parts, err := f.collect()
	if err != nil {
		return err
	}
	return (&saved{f.kind, f.version, parts}).write(w)
}

// save replaces the file as a whole, or leaves it as it was.
func (f *stateFile) save() error { return replaceFile(f.path, f.write) }

// run saves every so often until the context ends, and then once more. Of failures only the first is told.
func (f *stateFile) run(ctx context.Context) {
	if f.path == "" {
		return
	}
	ticks := time.NewTicker(f.every)
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
			f.log.Warn(f.unsaved, zap.String("file", f.path), zap.Error(err))
		}
	}
}

// complain says at once, and not only when it is saved for the first time, that a state cannot
// be saved: systemd makes its directory, a start by hand does not.
func (f *stateFile) complain() {
	dir := filepath.Dir(f.path)
	if err := syscall.Access(dir, writeAndPass); f.path != "" && err != nil {
		f.log.Warn("no state can be saved, so a restart will forget who is known: this process may not write into the directory. "+
			"Make it (install -d -o USER -m 750 DIRECTORY), name another file by the key state or TEMPOMAT_STATE, or set state: \"off\"",
			zap.String("directory", dir), zap.Error(err))
	}
}

// writeAndPass is W_OK and X_OK of access(2).
const writeAndPass = 2 | 1

// memory is what a part remembers beyond a restart.
type memory interface {
	AppendBinary(b []byte) ([]byte, error)
	UnmarshalBinary(data []byte) error
}

// The state file is of this kind and version.
const (
	stateKind    = "state"
	stateVersion = 1
	// largestState bounds what is read of it, in bytes; a usual one has 1.5 MB.
	largestState = 64 << 20
)

// newState keeps what parts remember, by their names. It holds no debts, which a restart forgives, and of clients
// nothing that could be read but the pins: only hashes, and the keys of those and of newcomers' passes.
func newState(path string, parts map[string]memory, log *zap.Logger) *stateFile {
	return &stateFile{
		path: path, kind: stateKind, version: stateVersion, most: largestState, every: 5 * time.Minute, log: log,
		unread: "known clients are forgotten", unsaved: "a restart will forget who is known",
		collect: func() (all []savedPart, err error) {
			for _, name := range slices.Sorted(maps.Keys(parts)) {
				b, err := parts[name].AppendBinary(nil)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				all = append(all, savedPart{name, b})
			}
			return all, nil
		},
		remember: func(all []savedPart) (err error) {
			for _, p := range all {
				if part, ok := parts[p.Name]; ok {
					if e := part.UnmarshalBinary(p.Data); e != nil {
						err = errors.Join(err, fmt.Errorf("%s: %w", p.Name, e))
					}
				}
			}
			return err
		},
	}
}

const (
	// The history's file is of this kind and version. Each of its parts is an hour.
	historyKind    = "history"
	historyVersion = 3
	hourPart       = "hour"
	// largestHistory bounds what is read of it, in bytes; a full one has 6 MB at most.
	largestHistory = 16 << 20
)

// pastHours is the history and its file. A nil one keeps none.
type pastHours struct {
	*book.History
	*stateFile
}

// newPastHours makes a history, nil if none is to be kept. Its file is next to the state file; without that it is
// only in memory.
func newPastHours(c *config.Config, words *telemetry.Words, log *zap.Logger) *pastHours {
	if c.History.Hours == 0 {
		return nil
	}
	h := book.NewHistory(c.History.Hours, words)
	return &pastHours{h, &stateFile{
		path: historyPath(c), kind: historyKind, version: historyVersion, most: largestHistory, every: 15 * time.Minute, log: log,
		unread: "the history starts again: its file can't be read", unsaved: "a restart will forget the history",
		collect: func() (parts []savedPart, err error) {
			for _, b := range h.Blocks() {
				parts = append(parts, savedPart{hourPart, b})
			}
			return parts, nil
		},
		remember: func(parts []savedPart) error {
			var hours [][]byte
			for _, p := range parts {
				if p.Name != hourPart {
					return fmt.Errorf("a part is called %q", p.Name)
				}
				hours = append(hours, p.Data)
			}
			return h.Restore(hours)
		},
	}}
}

func historyPath(c *config.Config) string {
	if c.State == "" {
		return ""
	}
	return c.State + ".history"
}

// reply is the admin API's function, nil if there is no history.
func (p *pastHours) reply() func(hours int) api.HistoryReply {
	if p == nil {
		return nil
	}
	return p.Reply
}

// forgetHistory removes the file that an earlier configuration had kept, since who
// switches the history off does not want it to lie about.
func forgetHistory(c *config.Config, log *zap.Logger) {
	path := historyPath(c)
	if c.History.Hours > 0 || path == "" {
		return
	}
	text, err := readOwn(path, largestHistory)
	if err == nil && isSaved(text) {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the history that was kept is still there", zap.String("file", path), zap.Error(err))
	}
}
