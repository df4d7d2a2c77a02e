// Package mmdb tells what addresses belong to, by MaxMind DB files of the administrator's:
// their autonomous system, and their country.
//
// A Store has the files in memory, and reads them again when they change. Whoever asks takes no
// lock and does no I/O, not even by touching a page that is not there: files are not mapped, so
// that one that is written over while it is used does no harm. All of a new file is gone through
// before it takes the place of the one before: one that is broken, half-written, or of another
// kind is told of with its name, and changes nothing.
package mmdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oschwald/maxminddb-golang/v2"
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
	file     os.FileInfo // nil: there is none
}

func (v version) is(o version) bool {
	return v.size == o.size && v.modified.Equal(o.modified) && (v.file == nil) == (o.file == nil) && (v.file == nil || os.SameFile(v.file, o.file))
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
		case err == nil && now.is(t.tried):
		case err == nil && !atOnce && !now.is(t.pending):
			t.pending = now
		default:
			t.tried = now
			s.putInForce(kind, t, err)
		}
	}
}

// putInForce reads a file and has it in force, if it can be used; err is why it cannot.
func (s *Store) putInForce(kind string, t *Table, err error) {
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
	return version{info.Size(), info.ModTime(), info}, nil
}

// reason is an error of the system without the file's name, which is told next to it.
func reason(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		err = of.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// mostBytes bounds a file: the largest that are sold have less.
const mostBytes = 2 << 30

// load reads all of a file, and checks it.
func load(file string, read reading) (c *content, networks int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, reason(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, 0, reason(err)
	case info.Size() == 0:
		return nil, 0, errors.New("is empty")
	case info.Size() > mostBytes:
		return nil, 0, fmt.Errorf("is larger than %d MiB", mostBytes>>20)
	}
	data := make([]byte, info.Size())
	if _, err = io.ReadFull(f, data); err != nil {
		return nil, 0, reason(err)
	}
	if c, err = parse(data, read); err != nil {
		return nil, 0, err
	}
	networks, err = c.check()
	return c, networks, err
}

// slots is how many records are remembered that were read. Clients of a site are of
// few autonomous systems.
const slots = 1 << 12

// content is a file in memory. It may be used concurrently.
type content struct {
	reader *maxminddb.Reader
	read   reading
	known  [slots]atomic.Pointer[record]
}

// record is what a part of the file says; networks share them.
type record struct {
	offset uintptr
	id     string
}

// parse takes a file's bytes for a database. They are the content's from then on.
func parse(data []byte, read reading) (*content, error) {
	reader, err := maxminddb.OpenBytes(data)
	if err != nil {
		return nil, fmt.Errorf("is no MaxMind DB file, or not all of one: %w", err)
	}
	return &content{reader: reader, read: read}, nil
}

// check goes through all of it and returns how many networks there are. Its error says what is
// broken, or that the file is of another kind.
func (c *content) check() (networks int, err error) {
	useful := false
	for r := range c.reader.Networks() {
		id, err := c.idOf(r)
		if err != nil {
			return networks, fmt.Errorf("is broken after %d networks: %w", networks, err)
		}
		useful = useful || id != ""
		networks++
	}
	if !useful {
		return networks, fmt.Errorf("has nothing of the kind for any of its %d networks; its type is %.64q", networks, c.reader.Metadata.DatabaseType)
	}
	return networks, nil
}

// id is the key of an address; empty: none is known.
func (c *content) id(a netip.Addr) string {
	id, err := c.idOf(c.reader.Lookup(a))
	if err != nil {
		return "" // not reached: all of it was gone through
	}
	return id
}

func (c *content) idOf(r maxminddb.Result) (string, error) {
	if !r.Found() {
		return "", r.Err()
	}
	offset := r.Offset()
	slot := &c.known[uint64(offset)*0x9e3779b97f4a7c15>>52]
	if x := slot.Load(); x != nil && x.offset == offset {
		return x.id, nil
	}
	id, err := c.read(r)
	if err != nil {
		return "", err
	}
	slot.Store(&record{offset, id})
	return id, nil
}

// reading finds the key in a record; empty: it has none. Its error is that the file is broken.
type reading func(maxminddb.Result) (string, error)

// readings are those of the kinds of databases that there are.
func readings() map[string]reading { return map[string]reading{"asn": readASN, "country": readCountry} }

// readASN finds the number of an autonomous system, as MaxMind and DB-IP tell it, or as IPinfo
// does.
func readASN(r maxminddb.Result) (string, error) {
	for _, name := range [...]string{"autonomous_system_number", "asn"} {
		x, err := at(r, name)
		if err != nil {
			return "", err
		}
		text, _ := x.(string)
		number, isNumber := x.(uint64)
		if !isNumber {
			number, err = strconv.ParseUint(strings.TrimPrefix(strings.ToUpper(text), "AS"), 10, 32)
		}
		if err == nil && number > 0 && number <= 1<<32-1 {
			return "AS" + strconv.FormatUint(number, 10), nil
		}
	}
	return "", nil
}

// readCountry finds the code of a country (ISO 3166-1), as MaxMind and DB-IP tell it, or as
// IPinfo does. Where an address is used counts, or else where its network is registered.
func readCountry(r maxminddb.Result) (string, error) {
	for _, path := range [...][]any{{"country", "iso_code"}, {"country_code"}, {"country"}, {"registered_country", "iso_code"}} {
		x, err := at(r, path...)
		if err != nil {
			return "", err
		}
		code, _ := x.(string)
		code = strings.ToUpper(code)
		if len(code) == 2 && strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
			return code, nil
		}
	}
	return "", nil
}

// at is what a record has there, a text or a number; nil: another thing, or nothing.
func at(r maxminddb.Result, path ...any) (x any, err error) {
	err = r.DecodePath(&x, path...)
	if _, broken := errors.AsType[maxminddb.InvalidDatabaseError](err); broken {
		return nil, err
	}
	switch x := x.(type) {
	case string:
		return x, nil
	case uint64:
		return x, nil
	}
	return nil, nil
}
