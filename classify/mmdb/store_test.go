package mmdb

import (
	"fmt"
	"iter"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tempomat/internal/testkit"
)

// rows yields networks and their records.
type rows = iter.Seq2[netip.Prefix, mmdbtype.DataType]

// bytesOf returns a database file with the given rows.
func bytesOf(t testing.TB, kind string, all rows) []byte {
	t.Helper()
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: kind, RecordSize: 28, IncludeReservedNetworks: true})
	testkit.Must(t, err)
	for p, r := range all {
		testkit.Must(t, tree.Insert(&net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}, r))
	}
	var b strings.Builder
	if _, err := tree.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}

// few yields n networks, numbered from 1, each with a record made from its number.
func few(n int, record func(i int) mmdbtype.DataType) rows {
	return func(yield func(netip.Prefix, mmdbtype.DataType) bool) {
		for i := range n {
			if !yield(netip.PrefixFrom(nth(i), 24), record(i+1)) {
				return
			}
		}
	}
}

// nth returns the first address of the network that few numbers i.
func nth(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(1 + i>>16), byte(i >> 8), byte(i), 0})
}

func asNumber(n int) mmdbtype.DataType {
	return mmdbtype.Map{"autonomous_system_number": mmdbtype.Uint32(n), "is_anycast": mmdbtype.Bool(n%2 == 0)}
}

// TestFormats reads records in the formats of other publishers.
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
		testkit.Must(t, err)
		for range 2 { // the second lookup is served from the cache
			testkit.Same(t, test.want, c.ID(nth(0)), "%s", test.name)
		}
		testkit.Same(t, "", c.ID(netip.MustParseAddr("203.0.113.9")), "%s: an address that is not in the file", test.name)
		if err := c.check(); (err == nil) != (test.want != "") {
			t.Errorf("%s: gone through: %v", test.name, err)
		}
	}
}

// TestBrokenKeepsTheRunning: whatever happens to the file, the previous database stays in use. The log and the
// error name the file and its fault.
func TestBrokenKeepsTheRunning(t *testing.T) {
	core, logs := observer.New(zap.ErrorLevel)
	s := New(zap.New(core))
	file := filepath.Join(t.TempDir(), "asn.mmdb")
	load := func() (id string, err error) {
		tables, err := s.Load(map[string]string{"asn": file})
		if tables["asn"] == nil {
			return "no table", err
		}
		return tables["asn"].ID(nth(0)), err
	}
	good := bytesOf(t, "GeoLite2-ASN", few(1000, asNumber))
	if id, err := load(); id != "no table" || err == nil || logs.Len() != 1 {
		t.Errorf("without a file: %q, %v, log %v", id, err, logs.All())
	}
	testkit.ReplaceFile(t, file, string(good))
	if id, err := load(); id != "AS1" || err != nil {
		t.Fatalf("got %q, %v", id, err)
	}
	logs.TakeAll()
	damaged := slices.Clone(good)
	for i := range 600 { // pointers in the tree
		damaged[300+i] = 0xff
	}
	for name, data := range map[string][]byte{
		"empty": nil, "the first half": good[:len(good)/2], "all but the last byte": good[:len(good)-1], "text": []byte("<html>429 Too Many Requests"),
		"with a hole": damaged,
		"of another kind": bytesOf(t, "GeoLite2-Country", few(10, func(int) mmdbtype.DataType {
			return mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.String("NZ")}}
		})),
	} {
		testkit.ReplaceFile(t, file, string(data))
		id, err := load()
		told := logs.TakeAll()
		if len(told) != 1 || told[0].ContextMap()["file"] != file || told[0].ContextMap()["error"] == "" || told[0].ContextMap()["previous version stays"] != true {
			t.Errorf("%s: log %v", name, told)
		}
		if id != "AS1" || err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: got %q, %v", name, id, err)
		}
	}
	testkit.Must(t, os.Remove(file))
	if id, err := load(); id != "AS1" || err == nil {
		t.Errorf("removed: got %q, %v", id, err)
	}
	testkit.ReplaceFile(t, file, string(bytesOf(t, "GeoLite2-ASN", few(10, func(int) mmdbtype.DataType { return asNumber(64496) }))))
	if id, err := load(); id != "AS64496" || err != nil {
		t.Errorf("with a valid file again: got %q, %v", id, err)
	}
	if tables, err := s.Load(nil); len(tables) > 0 || err != nil {
		t.Errorf("without any: %v, %v", tables, err)
	}
}

// TestIDs: a lookup allocates nothing, even during other lookups.
func TestIDs(t *testing.T) {
	c, err := parse(bytesOf(t, "x", few(2000, asNumber)), readASN)
	if err != nil || c.check() != nil {
		t.Fatal(err, c.check())
	}
	if got := testing.AllocsPerRun(100, func() { c.ID(nth(7)) }); got > 0 {
		t.Errorf("%v allocations", got)
	}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for i := range 2000 {
				testkit.Same(t, fmt.Sprint("AS", i+1), c.ID(nth(i)), "network %d", i)
			}
		})
	}
	all.Wait()
}

// FuzzParse: a broken file causes nothing worse than an error.
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
			_ = c.check()
			for i := range 5 {
				if x := c.ID(nth(i)); len(x) > 12 {
					t.Fatalf("key %q", x)
				}
			}
		}
	})
}
