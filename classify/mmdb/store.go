// Package mmdb looks up the autonomous systems and the countries of addresses in the administrator's MaxMind
// DB files.
//
// The whole file is read into memory when the configuration is loaded. It isn't memory-mapped, so overwriting
// the file does no harm. Lookups take no lock and do no I/O. A new file is used only after all of it has been
// checked. If the file is damaged, incomplete or of a different kind, the Store logs this and keeps the previous
// data.
package mmdb

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/oschwald/maxminddb-golang/v2"
	"go.uber.org/zap"
)

// Store keeps the current databases from one reload to the next. Only one goroutine may use it.
type Store struct {
	log    *zap.Logger
	tables map[string]*Table
}

// New makes a Store without databases.
func New(log *zap.Logger) *Store { return &Store{log: log} }

// Load reads the given file for each kind of database ("asn", "country") and returns the databases to use. If a
// file can't be used, Load logs the reason, adds it to the error, and returns the previous database of that
// kind.
func (s *Store) Load(files map[string]string) (tables map[string]*Table, faults error) {
	tables = make(map[string]*Table)
	for kind, file := range files {
		t, err := load(file, readings()[kind])
		fields := []zap.Field{zap.String("kind", kind), zap.String("file", file)}
		if err != nil {
			faults = errors.Join(faults, fmt.Errorf("databases.%s: %s %w", kind, file, err))
			t = s.tables[kind]
			s.log.Error("can't use an address database", append(fields, zap.Bool("previous version stays", t != nil), zap.Error(err))...)
		} else {
			s.log.Info("address database loaded", append(fields, zap.Time("built", t.reader.Metadata.BuildTime()))...)
		}
		if t != nil {
			tables[kind] = t
		}
	}
	s.tables = tables
	return tables, faults
}

// mostBytes is the largest accepted size of a file. All available databases are smaller.
const mostBytes = 2 << 30

// load reads a whole file and checks it.
func load(file string, read reading) (*Table, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, reason(err)
	case !info.Mode().IsRegular(): // checked before the file is opened, because opening a pipe would block
		return nil, errors.New("isn't a regular file")
	case info.Size() == 0:
		return nil, errors.New("is empty")
	case info.Size() > mostBytes:
		return nil, fmt.Errorf("is larger than %d MiB", mostBytes>>20)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, reason(err)
	}
	t, err := parse(data, read)
	if err != nil {
		return nil, err
	}
	return t, t.check()
}

// reason removes the file's name from a system error, because the caller adds it.
func reason(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		err = of.Err
	}
	return fmt.Errorf("can't be read: %w", err)
}

// slots is the size of a Table's cache of records. It is small because a site's clients belong to few
// autonomous systems.
const slots = 1 << 12

// Table is a database in memory. It may be used concurrently.
type Table struct {
	reader *maxminddb.Reader
	read   reading
	known  [slots]atomic.Pointer[record]
}

// record is the key in a record of the file. Many networks share a record.
type record struct {
	offset uintptr
	id     string
}

// parse makes a Table from a file's bytes, which the Table keeps.
func parse(data []byte, read reading) (*Table, error) {
	reader, err := maxminddb.OpenBytes(data)
	if err != nil {
		return nil, fmt.Errorf("isn't a complete MaxMind DB file: %w", err)
	}
	return &Table{reader: reader, read: read}, nil
}

// check reads all networks. The error says what is damaged, or that the file is of a different kind.
func (t *Table) check() error {
	useful, networks := false, 0
	for r := range t.reader.Networks() {
		id, err := t.idOf(r)
		if err != nil {
			return fmt.Errorf("is damaged after %d networks: %w", networks, err)
		}
		useful = useful || id != ""
		networks++
	}
	if !useful {
		return fmt.Errorf("has no entry of this kind for any of its %d networks; its type is %.64q", networks, t.reader.Metadata.DatabaseType)
	}
	return nil
}

// ID returns the key of an address, at most 12 letters and digits. It is empty if none is known.
func (t *Table) ID(a netip.Addr) string {
	id, err := t.idOf(t.reader.Lookup(a))
	if err != nil {
		return "" // not reached, because check has read all networks
	}
	return id
}

func (t *Table) idOf(r maxminddb.Result) (string, error) {
	if !r.Found() {
		return "", r.Err()
	}
	offset := r.Offset()
	slot := &t.known[uint64(offset)*0x9e3779b97f4a7c15>>52]
	if x := slot.Load(); x != nil && x.offset == offset {
		return x.id, nil
	}
	id, err := t.read(r)
	if err != nil {
		return "", err
	}
	slot.Store(&record{offset, id})
	return id, nil
}

// reading returns the key in a record, or an empty string if there is none. It returns an error if the file is
// damaged.
type reading func(maxminddb.Result) (string, error)

// readings returns the reading for each kind of database.
func readings() map[string]reading { return map[string]reading{"asn": readASN, "country": readCountry} }

// readASN reads the number of an autonomous system, in the format of MaxMind and DB-IP, or of IPinfo.
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

// readCountry reads the code of a country (ISO 3166-1), in the format of MaxMind and DB-IP, or of IPinfo. If
// a record doesn't say where the address is used, the country in which its network is registered counts.
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

// at returns the text or number at a path in a record, or nil if there is neither.
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
