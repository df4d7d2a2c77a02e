package spool

import (
	"net/netip"
	"runtime"
	"testing"
)

func TestAddressHasItsPart(t *testing.T) {
	for name, c := range map[string]struct {
		first, second string
		shared        bool
	}{
		"the same":         {"203.0.113.7", "203.0.113.7", true},
		"mapped":           {"203.0.113.7", "::ffff:203.0.113.7", true},
		"another":          {"203.0.113.7", "203.0.113.8", false},
		"of one /64":       {"2001:db8::1", "2001:db8::ffff:1", true},
		"with a zone":      {"fe80::1%eth0", "fe80::2%eth1", true},
		"of another /64":   {"2001:db8::1", "2001:db8:0:1::1", false},
		"nobody's, nobody": {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := &faultyDisk{room: 1 << 30}
			s := d.on(Limits{Memory: 8 * blockSize, Disk: 1 << 20, Address: 0.5})
			first, _ := netip.ParseAddr(c.first)
			second, _ := netip.ParseAddr(c.second)
			p, q := s.Open(first, 4*blockSize, 4*blockSize), s.Open(second, 4*blockSize, 4*blockSize)
			p.TryWrite(text(4 * blockSize))
			q.TryWrite(text(4 * blockSize))
			got := s.Stats()
			if shared := got.Disk > 0; shared != c.shared || (got.NoAddress > 0) != c.shared {
				t.Errorf("shared: %v, want %v; %+v", shared, c.shared, got)
			}
			p.Close()
			q.Close()
			empty(t, s)
		})
	}
}

func TestDiskOfAllIsBounded(t *testing.T) {
	d := &faultyDisk{room: 1 << 30}
	s := d.on(Limits{Disk: 1 << 20, Address: 0.25})
	var all []*Spool
	for i := range 8 {
		p := s.Open(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 0, 1<<30)
		for p.TryWrite(text(10_000)) > 0 {
		}
		all = append(all, p)
	}
	got := s.Stats()
	if got.Disk > 1<<20 || got.Disk < 1<<20-8*10_000 || got.NoAddress == 0 || got.NoDisk == 0 {
		t.Errorf("%+v", got)
	}
	for i, p := range all[:4] {
		if n := p.Buffered(); n > 1<<18 || n < 1<<18-10_000 {
			t.Errorf("spool %d has %d bytes", i, n)
		}
	}
	for _, p := range all {
		p.Close()
	}
	empty(t, s)
}

// The disk of Limits.Disk 0 is half of what is free at first; the last tenth of
// the file system stays free; and it is rarely looked at.
// TestFilesAreBounded: as many bodies as may have a file have one, and the next one's writer waits for its reader.
func TestFilesAreBounded(t *testing.T) {
	s := NewStore(Limits{Directory: t.TempDir(), Files: 2, Address: 1})
	b := make([]byte, 1000)
	for i, want := range []int{len(b), len(b), 0} {
		p := s.Open(netip.Addr{}, 0, 1<<20)
		defer p.Close()
		if n := p.TryWrite(b); n != want {
			t.Errorf("spool %d takes %d bytes, want %d", i, n, want)
		}
	}
	if got := s.Stats(); got.Files != 2 || got.Errors != 1 {
		t.Errorf("%+v", got)
	}
}

func TestFreeSpace(t *testing.T) {
	const total = 1 << 30
	free, looks := int64(total/5), 0
	s := NewStore(Limits{Address: 1})
	s.open = func(string) (file, error) { return emptyDisk{}, nil }
	s.free = func(string) (int64, int64, error) { looks++; return free, total, nil }
	p := s.Open(anybody, 0, 1<<40)
	defer p.Close()
	b := make([]byte, 64<<10)
	written := int64(0)
	for {
		n := p.TryWrite(b)
		if n == 0 {
			break
		}
		written += int64(n)
		free -= int64(n)
	}
	if want := int64(total / 10); written > want || written < want-2*64<<10 {
		t.Errorf("wrote %d of %d", written, want)
	}
	if looks > 5 {
		t.Errorf("%d looks while %d MB were written", looks, written>>20)
	}
	looks = 0
	free = total / 10 // somebody else fills the disk
	s.SetLimits(Limits{Disk: 1 << 40, Address: 1, Directory: "/another"})
	for range 1000 {
		if n := p.TryWrite(b); n != 0 {
			t.Fatalf("took %d of the last tenth", n)
		}
	}
	if looks == 0 || looks > 20 {
		t.Errorf("%d looks in 1000 writes", looks)
	}
	if got := s.Stats(); got.NoDisk == 0 || got.NoDisk > 2 {
		t.Errorf("counted %d times that the disk is full", got.NoDisk)
	}
	free = total
	took := 0
	for range 2 * lookAgain {
		took += p.TryWrite(b)
	}
	if took == 0 {
		t.Error("room that came back was not noticed")
	}
}

// emptyDisk keeps nothing: only memory is looked at.
type emptyDisk struct{}

func (emptyDisk) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }
func (emptyDisk) ReadAt(b []byte, _ int64) (int, error)  { clear(b); return len(b), nil }
func (emptyDisk) Close() error                           { return nil }

func TestManySlowReadersStayWithinMemory(t *testing.T) {
	const spools, budget = 10_000, 8 << 20
	s := NewStore(Limits{Memory: budget, Disk: 1 << 40, Address: 1})
	s.open = func(string) (file, error) { return emptyDisk{}, nil }
	s.free = func(string) (int64, int64, error) { return 1 << 50, 1 << 50, nil }
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	body := make([]byte, 1<<20)
	before := heap()
	all := make([]*Spool, spools)
	for i := range all {
		all[i] = s.Open(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 64<<10, 1<<30)
		if n := all[i].TryWrite(body); n != len(body) {
			t.Fatalf("spool %d took %d", i, n)
		}
		if got := s.Stats().Memory; got > budget {
			t.Fatalf("%d bytes in memory, %d are allowed", got, budget)
		}
	}
	if used := heap() - before; used > budget+spools*1500 {
		t.Errorf("%d MB in use, of which %d MB may be buffers", used>>20, budget>>20)
	}
	if got := s.Stats(); got.Memory != budget || got.Memory+got.Disk != spools<<20 || got.Files != spools || got.NoMemory == 0 {
		t.Errorf("%+v", got)
	}
	for _, p := range all {
		p.Close()
	}
	empty(t, s)
}
