package mmdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// every is how often it is looked whether a file has changed.
const every = 10 * time.Second

// Store is the databases of a program. Its methods may be called concurrently.
type Store struct {
	log *zap.Logger

	mu     sync.Mutex // guards the following; whoever asks for an address does not take it
	tables map[string]*Table
}

// New makes a Store without databases.
func New(log *zap.Logger) *Store { return &Store{log: log, tables: make(map[string]*Table)} }

// Table is a database of one kind, whatever the file is that has it. It may be asked
// concurrently.
type Table struct {
	content atomic.Pointer[content]

	file    string // the following are the Store's
	tried   version
	pending version
	fault   string
}

// version is what tells one state of a file from another.
type version struct {
	size     int64
	modified time.Time
	inode    uint64
}

// ID is the key of an address, of at most 12 letters and digits; empty: none is known, or no
// file was read yet.
func (t *Table) ID(a netip.Addr) string {
	c := t.content.Load()
	if c == nil {
		return ""
	}
	return c.id(a)
}

// Tables are those of the kinds that a file was named for, by kind ("asn", "country").
func (s *Store) Tables() map[string]*Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.tables)
}

// Load names the files, by kind, and reads those that are new or have changed. One that cannot
// be used is told of in the log, and leaves the one before, if there was one. A kind that there
// is not is an error.
func (s *Store) Load(files map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind := range files {
		if readings()[kind] == nil {
			return fmt.Errorf("there is no database of %q", kind)
		}
	}
	maps.DeleteFunc(s.tables, func(kind string, _ *Table) bool { return files[kind] == "" })
	for kind, file := range files {
		t := s.tables[kind]
		if t == nil {
			t = &Table{}
			s.tables[kind] = t
		}
		if t.file != file {
			t.file, t.tried, t.fault = file, version{}, ""
		}
	}
	s.look(true)
	return nil
}

// Fault is what is wrong with files as they are; nil: nothing.
func (s *Store) Fault() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(s.tables)) {
		if t := s.tables[kind]; t.fault != "" {
			err = errors.Join(err, fmt.Errorf("databases.%s: %s %s", kind, t.file, t.fault))
		}
	}
	return err
}

// Run looks for changes until the context ends.
func (s *Store) Run(ctx context.Context) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			s.Look()
		}
	}
}

// Look reads what has changed since, and is the same as when it was looked last: a file that
// grows is not read each time.
func (s *Store) Look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look(false)
}

func (s *Store) look(atOnce bool) {
	for _, kind := range slices.Sorted(maps.Keys(s.tables)) {
		t := s.tables[kind]
		now, err := versionOf(t.file)
		switch {
		case err == nil && now == t.tried:
		case err == nil && !atOnce && now != t.pending:
			t.pending = now
		default:
			t.tried = now
			s.take(kind, t, err)
		}
	}
}

// take reads a file and has it in force, if it can be used; err is why it cannot.
func (s *Store) take(kind string, t *Table, err error) {
	var c *content
	networks, begun := 0, time.Now()
	if err == nil {
		c, networks, err = load(t.file, readings()[kind])
	}
	fields := []zap.Field{zap.String("kind", kind), zap.String("file", t.file)}
	if err != nil {
		if t.fault != err.Error() { // once, though it is looked again and again
			t.fault = err.Error()
			s.log.Error("a database of addresses cannot be used", append(fields, zap.Bool("the one before stays", t.content.Load() != nil), zap.Error(err))...)
		}
		return
	}
	t.fault = ""
	t.content.Store(c)
	s.log.Info("database of addresses is in force", append(fields, zap.String("type", c.reader.Metadata.DatabaseType), zap.Time("built", c.reader.Metadata.BuildTime()),
		zap.Int("networks", networks), zap.Duration("took", time.Since(begun)))...)
}

func versionOf(file string) (version, error) {
	info, err := os.Stat(file)
	if err != nil {
		return version{}, reason(err)
	}
	if !info.Mode().IsRegular() { // before it is opened, as that of a pipe would wait
		return version{}, errors.New("is no file")
	}
	return version{info.Size(), info.ModTime(), inodeOf(info)}, nil
}

// reason is an error of the system without the file's name, which is told beside it.
func reason(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		err = of.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}
