package mmdb

import (
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rows are networks, and what is told of them.
type rows = iter.Seq2[netip.Prefix, mmdbtype.DataType]

// bytesOf is a file of rows.
func bytesOf(t testing.TB, kind string, all rows) []byte {
	t.Helper()
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: kind, RecordSize: 28, IncludeReservedNetworks: true})
	if err != nil {
		t.Fatal(err)
	}
	for p, r := range all {
		if err := tree.Insert(&net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}, r); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	if _, err := tree.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}

// put has a file hold that from now on, in one step.
func put(t testing.TB, file string, data []byte) {
	t.Helper()
	if err := errors.Join(os.WriteFile(file+".new", data, 0o600), os.Rename(file+".new", file)); err != nil {
		t.Fatal(err)
	}
}

// few are some networks, each with a record made of its number, from 1.
func few(n int, record func(i int) mmdbtype.DataType) rows {
	return func(yield func(netip.Prefix, mmdbtype.DataType) bool) {
		for i := range n {
			if !yield(netip.PrefixFrom(nth(i), 24), record(i+1)) {
				return
			}
		}
	}
}

// nth is the first address of a network of few.
func nth(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(1 + i>>16), byte(i >> 8), byte(i), 0})
}

func asNumber(n int) mmdbtype.DataType {
	return mmdbtype.Map{"autonomous_system_number": mmdbtype.Uint32(n), "is_anycast": mmdbtype.Bool(n%2 == 0)}
}

func newStore(t *testing.T) (*Store, *observer.ObservedLogs) {
	core, logs := observer.New(zap.InfoLevel)
	return New(zap.New(core)), logs
}

// id asks a store.
func id(s *Store, kind, address string) string {
	if table := s.Tables()[kind]; table != nil {
		return table.ID(netip.MustParseAddr(address))
	}
	return "no table"
}

// TestFormats: what the files of others have.
func TestFormats(t *testing.T) {
	for _, test := range []struct {
		name, kind, want string
		record           mmdbtype.DataType
	}{
		{"MaxMind's ASN", "asn", "AS64496", asNumber(64496)},
		{"IPinfo's ASN", "asn", "AS64496", mmdbtype.Map{"asn": mmdbtype.String("AS64496"), "country": mmdbtype.String("NZ")}},
		{"no system", "asn", "", mmdbtype.Map{"asn": mmdbtype.Uint16(0)}},
		{"the largest number", "asn", "AS4294967295", mmdbtype.Map{"asn": mmdbtype.Uint32(1<<32 - 1)}},
		{"a small number", "asn", "AS7", mmdbtype.Map{"asn": mmdbtype.Uint16(7)}},
		{"the largest number", "asn", "AS4294967295", asNumber(1<<32 - 1)},
		{"no number", "asn", "", mmdbtype.Map{"asn": mmdbtype.String("<script>")}},
		{"a negative number", "asn", "", mmdbtype.Map{"asn": mmdbtype.Int32(-5)}},
		{"a number too large", "asn", "", mmdbtype.Map{"asn": mmdbtype.Uint64(1 << 40)}},
		{"MaxMind's country", "country", "NZ", mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.String("NZ")}}},
		{"where it is registered", "country", "DE", mmdbtype.Map{"registered_country": mmdbtype.Map{"iso_code": mmdbtype.String("DE")}}},
		{"IPinfo's country", "country", "NZ", mmdbtype.Map{"country": mmdbtype.String("nz")}},
		{"a code beside a name", "country", "NZ", mmdbtype.Map{"country_code": mmdbtype.String("NZ"), "country": mmdbtype.String("New Zealand")}},
		{"no code", "country", "", mmdbtype.Map{"country": mmdbtype.String("\x1b[")}},
		{"no map", "country", "", mmdbtype.String("NZ")},
	} {
		c, err := parse(bytesOf(t, "test", few(1, func(int) mmdbtype.DataType { return test.record })), readings()[test.kind])
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it is remembered
			if got := c.id(nth(0)); got != test.want {
				t.Errorf("%s: %q, want %q", test.name, got, test.want)
			}
		}
		if got := c.id(netip.MustParseAddr("203.0.113.9")); got != "" {
			t.Errorf("%s: %q for an address that is not there", test.name, got)
		}
		if _, err := c.check(); (err == nil) != (test.want != "") {
			t.Errorf("%s: gone through: %v", test.name, err)
		}
	}
}

// TestBrokenKeepsTheRunning: whatever the file becomes, what was read before is told on, and the
// log says which file it is and what is wrong with it, once.
func TestBrokenKeepsTheRunning(t *testing.T) {
	s, logs := newStore(t)
	file := filepath.Join(t.TempDir(), "asn.mmdb")
	good := bytesOf(t, "GeoLite2-ASN", few(1000, asNumber))
	if err := s.Load(map[string]string{"asn": file}); err != nil {
		t.Fatal(err)
	}
	if got := id(s, "asn", "1.0.0.1"); got != "" || logs.FilterMessage("a database of addresses cannot be used").Len() != 1 {
		t.Errorf("without a file: %q, log %v", got, logs.All())
	}
	logs.TakeAll()
	put(t, file, good)
	s.Look()
	s.Look()
	if got := id(s, "asn", "1.0.0.1"); got != "AS1" {
		t.Fatalf("got %q; log %v", got, logs.All())
	}
	logs.TakeAll()
	damaged := slices.Clone(good)
	for i := range 600 { // pointers of the tree
		damaged[300+i] = 0xff
	}
	for name, data := range map[string][]byte{
		"empty": nil, "the first half": good[:len(good)/2], "all but the last byte": good[:len(good)-1], "text": []byte("<html>429 Too Many Requests"),
		"with a hole": damaged,
		"of another kind": bytesOf(t, "GeoLite2-Country", few(10, func(int) mmdbtype.DataType {
			return mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.String("NZ")}}
		})),
	} {
		put(t, file, data)
		for range 4 {
			s.Look()
		}
		told := logs.TakeAll()
		if len(told) != 1 || told[0].ContextMap()["file"] != file || told[0].ContextMap()["error"] == "" || told[0].ContextMap()["the one before stays"] != true {
			t.Errorf("%s: log %v", name, told)
		}
		if err := s.Fault(); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: fault %v", name, err)
		}
		if got := id(s, "asn", "1.0.0.1"); got != "AS1" {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	s.Look()
	if got := id(s, "asn", "1.0.0.1"); got != "AS1" || logs.Len() != 1 {
		t.Errorf("removed: got %q, log %v", got, logs.All())
	}
	put(t, file, bytesOf(t, "GeoLite2-ASN", few(10, func(int) mmdbtype.DataType { return asNumber(64496) })))
	if err := s.Load(map[string]string{"asn": file}); err != nil {
		t.Fatal(err)
	}
	if got := id(s, "asn", "1.0.0.1"); got != "AS64496" {
		t.Errorf("a sound one again: got %q", got)
	}
	if err := s.Fault(); err != nil {
		t.Error(err)
	}
}

// TestGrowingIsLeftAlone: a file that is being written is not read before it rests.
func TestGrowingIsLeftAlone(t *testing.T) {
	s, logs := newStore(t)
	file := filepath.Join(t.TempDir(), "asn.mmdb")
	data := bytesOf(t, "GeoLite2-ASN", few(100, asNumber))
	put(t, file, data)
	if err := s.Load(map[string]string{"asn": file}); err != nil {
		t.Fatal(err)
	}
	logs.TakeAll()
	next := bytesOf(t, "GeoLite2-ASN", few(200, asNumber))
	for n := 0; n < len(next); n += len(next)/5 + 1 {
		if err := os.WriteFile(file, next[:n], 0o600); err != nil { // over the one that is in force
			t.Fatal(err)
		}
		s.Look()
	}
	if logs.Len() != 0 || id(s, "asn", "1.0.0.1") != "AS1" {
		t.Errorf("read while it grew: %v", logs.All())
	}
	if err := os.WriteFile(file, next, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Look()
	s.Look()
	if got := id(s, "asn", nth(150).String()); got != "AS151" {
		t.Errorf("got %q; log %v", got, logs.All())
	}
}

func TestLoadReplaces(t *testing.T) {
	s, _ := newStore(t)
	dir := t.TempDir()
	one, two := filepath.Join(dir, "1"), filepath.Join(dir, "2")
	put(t, one, bytesOf(t, "x", few(1, asNumber)))
	put(t, two, bytesOf(t, "x", few(1, func(int) mmdbtype.DataType { return asNumber(2) })))
	for _, test := range []struct{ file, want string }{{one, "AS1"}, {two, "AS2"}, {one, "AS1"}, {"", "no table"}} {
		files := map[string]string{"asn": test.file}
		if test.file == "" {
			files = nil
		}
		if err := s.Load(files); err != nil {
			t.Fatal(err)
		}
		if got := id(s, "asn", "1.0.0.1"); got != test.want {
			t.Errorf("%q: %q, want %q", test.file, got, test.want)
		}
	}
	if err := s.Load(map[string]string{"colour": one}); err == nil {
		t.Error("a kind that there is not is taken")
	}
}

// TestReloadUnderLoad: while a file is read again and again, whoever asks
// is told what the old one says or what the new one says.
func TestReloadUnderLoad(t *testing.T) {
	const networks = 2000
	s, logs := newStore(t)
	file := filepath.Join(t.TempDir(), "asn.mmdb")
	var data [2][]byte
	for i := range data {
		data[i] = bytesOf(t, "GeoLite2-ASN", few(networks, func(n int) mmdbtype.DataType { return asNumber(n + i*1_000_000) }))
	}
	put(t, file, data[0])
	if err := s.Load(map[string]string{"asn": file}); err != nil {
		t.Fatal(err)
	}
	table := s.Tables()["asn"]
	var stop atomic.Bool
	var all sync.WaitGroup
	for g := range 2 {
		all.Go(func() {
			for i := g; !stop.Load(); i += 7919 {
				n := i % networks
				if got := table.ID(nth(n)); got != fmt.Sprint("AS", n+1) && got != fmt.Sprint("AS", n+1_000_001) {
					t.Errorf("network %d: %q", n, got)
					return
				}
			}
		})
	}
	for round := range 4 {
		put(t, file, data[(round+1)%2])
		s.Look()
		s.Look()
	}
	stop.Store(true)
	all.Wait()
	if n := logs.FilterMessage("database of addresses is in force").Len(); n != 5 {
		t.Errorf("%d files were in force, want 5", n)
	}
}

func TestIDAllocatesNothing(t *testing.T) {
	s, _ := newStore(t)
	file := filepath.Join(t.TempDir(), "asn.mmdb")
	put(t, file, bytesOf(t, "x", few(100, asNumber)))
	if err := s.Load(map[string]string{"asn": file}); err != nil {
		t.Fatal(err)
	}
	table := s.Tables()["asn"]
	if got := testing.AllocsPerRun(100, func() { table.ID(nth(7)) }); got > 0 {
		t.Errorf("%v allocations", got)
	}
}

// FuzzParse: no file makes it fail otherwise than by an error.
func FuzzParse(f *testing.F) {
	good := bytesOf(f, "x", few(5, asNumber))
	f.Add(good, uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, data []byte, at uint16, with byte) {
		if len(data) > 0 {
			data = slices.Clone(data)
			data[int(at)%len(data)] ^= with
		}
		for _, read := range readings() {
			c, err := parse(data, read)
			if err != nil {
				continue
			}
			_, _ = c.check()
			for i := range 5 {
				if x := c.id(nth(i)); len(x) > 12 {
					t.Fatalf("key %q", x)
				}
			}
		}
	})
}
