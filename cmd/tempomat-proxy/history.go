package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"go.uber.org/zap"

	"tempomat/config"
	"tempomat/proxy/admin/api"
	"tempomat/proxy/savedfile"
	"tempomat/proxy/telemetry"
	"tempomat/proxy/telemetry/history"
)

const (
	// saveHistoryEvery bounds what a crash loses of the history.
	saveHistoryEvery = 15 * time.Minute
	// largestHistory bounds what is read of a file, in bytes; a full one has 6 MB at most.
	largestHistory = 16 << 20
	// The history's file is of this kind and version. Each of its parts is an hour.
	historyKind    = "history"
	historyVersion = 2
	hourPart       = "hour"
	// historySuffix is what its name has behind that of the state file.
	historySuffix = ".history"
	// unreadableSuffix is what a file has behind its name that could not be read.
	unreadableSuffix = ".unreadable"
)

// pastHours is the history and its file. A nil one keeps none.
type pastHours struct {
	*history.History
	path string // empty: only in memory
	log  *zap.Logger
}

// newPastHours makes a history, nil if none is to be kept.
func newPastHours(c *config.Config, log *zap.Logger) *pastHours {
	if c.History.Hours == 0 {
		return nil
	}
	return &pastHours{History: history.New(c.History.Hours), path: historyPath(c), log: log}
}

// historyPath is where the history is kept: beside the state file, if there is one.
func historyPath(c *config.Config) string {
	if c.State == "" {
		return ""
	}
	return c.State + historySuffix
}

// sinks are those that requests are told to.
func (p *pastHours) sinks() []telemetry.Sink {
	if p == nil {
		return nil
	}
	return []telemetry.Sink{p.History}
}

// reply is the admin API's function, nil if there is no history.
func (p *pastHours) reply() func(hours int) api.HistoryReply {
	if p == nil {
		return nil
	}
	return p.Reply
}

// load reads the file. Without one the history begins empty; one that is damaged, or of
// another release, is set aside as well: that is no reason not to serve.
func (p *pastHours) load() {
	if p == nil || p.path == "" {
		return
	}
	text, err := savedfile.ReadOwn(p.path, largestHistory)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		if err = p.restore(text); err != nil {
			err = errors.Join(err, os.Rename(p.path, p.path+unreadableSuffix))
		}
	}
	p.tell(err)
}

// take takes over what another process had.
func (p *pastHours) take(text []byte) {
	if p != nil {
		p.tell(p.restore(text))
	}
}

func (p *pastHours) tell(err error) {
	if err != nil {
		p.log.Warn("the history begins anew", zap.String("file", p.path), zap.Error(err))
	}
}

// restore takes a file's text in.
func (p *pastHours) restore(text []byte) error {
	parts, err := savedfile.Decode(text, historyKind, historyVersion)
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
	var parts []savedfile.Part
	for _, b := range p.Blocks() {
		parts = append(parts, savedfile.Part{Name: hourPart, Data: b})
	}
	return savedfile.Write(w, historyKind, historyVersion, parts)
}

// run saves now and then until the context ends, and then once more.
func (p *pastHours) run(ctx context.Context) {
	if p == nil || p.path == "" {
		return
	}
	saveRegularly(ctx, saveHistoryEvery, func() error { return savedfile.Replace(p.path, p.write) }, func(err error) {
		p.log.Warn("a restart will forget the history", zap.String("file", p.path), zap.Error(err))
	})
}

// forgetHistory removes the files that an earlier configuration had kept, since who
// switches the history off does not want it to lie about.
func forgetHistory(c *config.Config, log *zap.Logger) {
	path := historyPath(c)
	if c.History.Hours > 0 || path == "" {
		return
	}
	for _, path := range []string{path, path + unreadableSuffix} {
		text, err := savedfile.ReadOwn(path, largestHistory)
		if err == nil && savedfile.IsSaved(text) {
			err = os.Remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			log.Warn("the history that was kept is still there", zap.String("file", path), zap.Error(err))
		}
	}
}
