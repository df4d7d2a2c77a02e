package spool

import (
	"net/netip"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

func TestAddressHasItsPart(t *testing.T) {
	for name, c := range map[string]struct {
		first, second string
		shared        bool
	}{
		"the same":         {"203.0.113.7", "203.0.113.7", true},
		"another":          {"203.0.113.7", "203.0.113.8", false},
		"of one /64":       {"2001:db8::1", "2001:db8::ffff:1", true},
		"nobody's, nobody": {"", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := &faultyDisk{room: 1 << 30}
			s := d.on(Limits{Memory: 8 * blockSize, Address: 0.5}, 1<<20)
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
	s := d.on(Limits{Address: 0.25}, 1<<20)
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

// TestFilesAreBounded: only as many bodies as allowed have a file. The writer of the next body waits for its reader.
func TestFilesAreBounded(t *testing.T) {
	s := NewStore(Limits{Directory: t.TempDir(), Files: 2, Address: 1})
	b := make([]byte, 1000)
	for i, want := range []int{len(b), len(b), 0} {
		p := s.Open(netip.Addr{}, 0, 1<<20)
		defer p.Close()
		testkit.Same(t, want, p.TryWrite(b), "bytes that spool %d takes", i)
	}
	if got := s.Stats(); got.Files != 2 || got.Errors != 1 {
		t.Errorf("%+v", got)
	}
}

// TestFreeSpace: files take at most half of the free space, and never the last tenth. They can use space that
// others give back.
func TestFreeSpace(t *testing.T) {
	const total = 1 << 30
	for others, want := range map[int64]int64{0: total / 2, total * 4 / 5: total / 10, total * 19 / 20: 0} {
		s := NewStore(Limits{Address: 1})
		s.open = func(string) (file, error) { return emptyDisk{}, nil }
		s.free = func(string) (int64, int64, error) { return total - others - s.Stats().Disk, total, nil }
		p := s.Open(anybody, 0, 1<<40)
		b, written := make([]byte, 64<<10), int64(0)
		for n := 1; n > 0; written += int64(n) {
			n = p.TryWrite(b)
		}
		if written > want || written < want-2*64<<10 {
			t.Errorf("wrote %d beside %d of others, want %d", written, others, want)
		}
		testkit.Same(t, 1, s.Stats().NoDisk, "times that the disk was full")
		if others = 0; want < total/2 && p.TryWrite(b) == 0 {
			t.Error("room that came back was not noticed")
		}
		p.Close()
		empty(t, s)
	}
}

// TestHangingDisk: while one spool waits for the file system, another spool gets memory.
func TestHangingDisk(t *testing.T) {
	s := NewStore(Limits{Memory: 1 << 20, Address: 1})
	s.open = func(string) (file, error) { return emptyDisk{}, nil }
	hangs, goesOn := make(chan struct{}), make(chan struct{})
	s.free = func(string) (int64, int64, error) {
		close(hangs)
		<-goesOn
		return 1 << 50, 1 << 50, nil
	}
	p, q := s.Open(anybody, 0, 1<<20), s.Open(anybody, 64<<10, 1<<20)
	wrote, kept := make(chan int, 1), make(chan int, 1)
	go func() { wrote <- p.TryWrite([]byte("abc")) }()
	<-hangs
	go func() { kept <- q.TryWrite([]byte("abcd")) }()
	select {
	case n := <-kept:
		testkit.Same(t, 4, n, "bytes taken")
	case <-time.After(10 * time.Second):
		t.Error("a spool in memory waits for the disk")
	}
	close(goesOn)
	testkit.Same(t, 3, <-wrote, "bytes that the disk took")
	p.Close()
	q.Close()
	empty(t, s)
}

// emptyDisk keeps nothing, because only memory is tested.
type emptyDisk struct{}

func (emptyDisk) WriteAt(b []byte, _ int64) (int, error) { return len(b), nil }
func (emptyDisk) ReadAt(b []byte, _ int64) (int, error)  { clear(b); return len(b), nil }
func (emptyDisk) Close() error                           { return nil }

func TestManySlowReadersStayWithinMemory(t *testing.T) {
	const spools, budget = 10_000, 8 << 20
	s := NewStore(Limits{Memory: budget, Address: 1})
	s.open = func(string) (file, error) { return emptyDisk{}, nil }
	s.free = func(string) (int64, int64, error) { return 1 << 50, 1 << 50, nil }
	body := make([]byte, 1<<20)
	before := testkit.Heap()
	all := make([]*Spool, spools)
	for i := range all {
		all[i] = s.Open(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 64<<10, 1<<30)
		testkit.Same(t, len(body), all[i].TryWrite(body), "spool %d took", i)
		if got := s.Stats().Memory; got > budget {
			t.Fatalf("%d bytes in memory, %d are allowed", got, budget)
		}
	}
	if used := testkit.Heap() - before; used > budget+spools*1500 {
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
