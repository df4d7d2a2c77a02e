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
// one, they begin again: that is no reason not to serve.
func (f *stateFile) load() {
	if f.path == "" {
		return
	}
	data, err := readOwn(f.path, largestState)
	if errors.Is(err, fs.ErrNotExist) {
		f.complain()
		return
	}
	var parts []savedPart
	if err == nil {
		parts, err = decodeSaved(data, stateKind, stateVersion)
	}
	remembered := make(map[string][]byte, len(parts))
	for _, p := range parts {
		remembered[p.Name] = p.Data
	}
	f.tell(errors.Join(err, f.remember(remembered)))
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
func (f *stateFile) remember(remembered map[string][]byte) (err error) {
	for name, part := range f.parts {
		if s, ok := remembered[name]; ok {
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
	all := make(map[string][]byte, len(f.parts))
	for name, part := range f.parts {
		b, err := part.AppendBinary(nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[name] = b
	}
	return all, nil
}

// save replaces the file as a whole, or leaves it as it was.
func (f *stateFile) save() error {
	all, err := f.collect()
	if err != nil {
		return err
	}
	parts := make([]savedPart, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, savedPart{name, all[name]})
	}
	return replaceFile(f.path, (&saved{stateKind, stateVersion, parts}).write)
}

// saveRegularly saves every so often until the context ends, and then once more. Of failures
// only the first is told.
func saveRegularly(ctx context.Context, every time.Duration, save func() error, failed func(error)) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	told := false
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-ticks.C:
		}
		if err := save(); err != nil && !told {
			told = true
			failed(err)
		}
	}
}

const (
	// saveHistoryEvery bounds what a crash loses of the history.
	saveHistoryEvery = 15 * time.Minute
	// largestHistory bounds what is read of a file, in bytes; a full one has 6 MB at most.
	largestHistory = 16 << 20
	// The history's file is of this kind and version. Each of its parts is an hour.
	historyKind    = "history"
	historyVersion = 3
	hourPart       = "hour"
	// historySuffix is what its name has behind that of the state file.
	historySuffix = ".history"
)

// pastHours is the history and its file. A nil one keeps none.
type pastHours struct {
	*book.History
	path string // empty: only in memory
	log  *zap.Logger
}

// newPastHours makes a history, nil if none is to be kept.
func newPastHours(c *config.Config, words *telemetry.Words, log *zap.Logger) *pastHours {
	if c.History.Hours == 0 {
		return nil
	}
	return &pastHours{History: book.NewHistory(c.History.Hours, words), path: historyPath(c), log: log}
}

// historyPath is where the history is kept: next to the state file, if there is one.
func historyPath(c *config.Config) string {
	if c.State == "" {
		return ""
	}
	return c.State + historySuffix
}

// reply is the admin API's function, nil if there is no history.
func (p *pastHours) reply() func(hours int) api.HistoryReply {
	if p == nil {
		return nil
	}
	return p.Reply
}

// load reads the file. Without one the history begins empty, and with one that is damaged, or of
// another release: that is no reason not to serve.
func (p *pastHours) load() {
	if p == nil || p.path == "" {
		return
	}
	text, err := readOwn(p.path, largestHistory)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = p.restore(text)
	}
	p.tell(err)
}

// adopt takes over what another process had.
func (p *pastHours) adopt(text []byte) {
	if p != nil {
		p.tell(p.restore(text))
	}
}

func (p *pastHours) tell(err error) {
	if err != nil {
		p.log.Warn("the history starts again: its file can't be read", zap.String("file", p.path), zap.Error(err))
	}
}

// restore takes a file's text in.
func (p *pastHours) restore(text []byte) error {
	parts, err := decodeSaved(text, historyKind, historyVersion)
	if err != nil {
		return err
	}
	var hours [][]byte
	for _, part := range parts {
		if part.Name != hourPart {
			return fmt.Errorf("a part is called %q", part.Name)
		}
		hours = append(hours, part.Data)
	}
	return p.Restore(hours)
}

// write writes the file's text.
func (p *pastHours) write(w io.Writer) error {
	var parts []savedPart
	for _, b := range p.Blocks() {
		parts = append(parts, savedPart{Name: hourPart, Data: b})
	}
	return (&saved{historyKind, historyVersion, parts}).write(w)
}

// run saves now and then until the context ends, and then once more.
func (p *pastHours) run(ctx context.Context) {
	if p == nil || p.path == "" {
		return
	}
	saveRegularly(ctx, saveHistoryEvery, func() error { return replaceFile(p.path, p.write) }, func(err error) {
		p.log.Warn("a restart will forget the history", zap.String("file", p.path), zap.Error(err))
	})
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
