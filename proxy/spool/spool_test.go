package spool

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tempomat/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// anybody is the address that the tests use.
var anybody = netip.MustParseAddr("203.0.113.7")

// roomy returns limits that no test reaches by accident.
func roomy(t testing.TB) Limits {
	return Limits{Directory: t.TempDir(), Memory: 64 << 20, Address: 1}
}

// text returns n bytes whose pattern doesn't repeat at the size of a block.
func text(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

// empty checks that the store's memory, disk space, files and spools were all given back.
func empty(t *testing.T, s *Store) {
	t.Helper()
	got := s.Stats()
	if got.Memory != 0 || got.Disk != 0 || got.Files != 0 || got.Spools != 0 {
		t.Errorf("left: %+v", got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	testkit.Same(t, 0, len(s.accounts), "accounts left")
}

// passes sends want through a spool, and checks that it arrives unchanged.
func passes(t *testing.T, p *Spool, want []byte) {
	t.Helper()
	var both sync.WaitGroup
	both.Go(func() {
		r := rand.New(rand.NewPCG(1, 2))
		for b := want; len(b) > 0; {
			n := min(len(b), 1+r.IntN(80<<10))
			if got, err := p.Write(b[:n]); got != n || err != nil {
				t.Errorf("Write: %d of %d, %v", got, n, err)
				break
			}
			b = b[n:]
		}
		p.CloseWrite(nil)
	})
	got, err := io.ReadAll(p)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d bytes, %v; want %d; equal: %v", len(got), err, len(want), bytes.Equal(got, want))
	}
	both.Wait()
}

func TestPasses(t *testing.T) {
	for name, c := range map[string]struct {
		limits       func(*Limits)
		memory, most int64
	}{
		"memory":            {nil, 1 << 30, 1 << 30},
		"memory, then file": {nil, 64 << 10, 1 << 30},
		"file alone":        {nil, 0, 1 << 30},
		"nothing kept":      {nil, 0, 0},
		"one byte":          {nil, 1, 1},
		"no memory":         {func(l *Limits) { l.Memory = 0 }, 64 << 10, 1 << 30},
		"no directory":      {func(l *Limits) { l.Directory += "/none" }, 64 << 10, 1 << 30},
		"nothing for one":   {func(l *Limits) { l.Address = 0 }, 64 << 10, 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			l := roomy(t)
			if c.limits != nil {
				c.limits(&l)
			}
			s := NewStore(l)
			p := s.Open(anybody, c.memory, c.most)
			passes(t, p, text(3<<20+17))
			p.Close()
			empty(t, s)
		})
	}
}

func TestErrorOfTheWriterComesAfterTheLastByte(t *testing.T) {
	broke := errors.New("the backend broke off")
	s := NewStore(roomy(t))
	p := s.Open(anybody, 16<<10, 1<<20)
	defer p.Close()
	want := text(100 << 10)
	if _, err := p.Write(want); err != nil {
		t.Fatal(err)
	}
	p.CloseWrite(broke)
	p.CloseWrite(nil) // has no effect
	if n, err := p.Write(want); n != 0 || !errors.Is(err, ErrClosed) {
		t.Errorf("Write after the end: %d, %v", n, err)
	}
	got, err := io.ReadAll(p)
	if !bytes.Equal(got, want) || !errors.Is(err, broke) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestBlocksAreUsedAgain: blocks of memory are used again.
func TestBlocksAreUsedAgain(t *testing.T) {
	s := NewStore(roomy(t))
	body, got := text(256<<10), make([]byte, 256<<10)
	allocated := testing.AllocsPerRun(100, func() {
		p := s.Open(anybody, 1<<20, 1<<30)
		p.TryWrite(body)
		if _, err := io.ReadFull(p, got); err != nil {
			t.Fatal(err)
		}
		p.Close()
	})
	if allocated > 16 { // with the race detector, the pool drops a quarter of the blocks
		t.Errorf("%v allocations for 16 blocks", allocated)
	}
}

func TestWriterWithoutRoomHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(Limits{})
		p := s.Open(anybody, 64<<10, 1<<30)
		wrote := make(chan int, 1)
		go func() {
			n, _ := p.Write([]byte("abcdef"))
			wrote <- n
		}()
		synctest.Wait()
		if p.Buffered() != 0 || len(wrote) != 0 {
			t.Errorf("%d bytes kept, %d writers done", p.Buffered(), len(wrote))
		}
		b := make([]byte, 4)
		for _, want := range []string{"abcd", "ef"} {
			if n, err := p.Read(b); string(b[:n]) != want || err != nil {
				t.Errorf("read %q, %v; want %q", b[:n], err, want)
			}
		}
		testkit.Same(t, 6, <-wrote, "bytes written")
		p.Close()
		empty(t, s)
	})
}

func TestCloseWakesBothSides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(Limits{})
		p, q := s.Open(anybody, 0, 0), s.Open(anybody, 0, 0)
		var both sync.WaitGroup
		both.Go(func() {
			if n, err := p.Write([]byte("abc")); n != 1 || !errors.Is(err, ErrClosed) {
				t.Errorf("Write: %d, %v; want 1, which was read", n, err)
			}
		})
		both.Go(func() {
			if n, err := q.Read(make([]byte, 1)); n != 0 || !errors.Is(err, ErrClosed) {
				t.Errorf("Read: %d, %v", n, err)
			}
		})
		synctest.Wait()
		if _, err := p.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		p.Close()
		q.Close()
		q.Close()
		both.Wait()
		if n, err := p.Write([]byte("x")); n != 0 || !errors.Is(err, ErrClosed) || p.TryWrite([]byte("x")) != 0 {
			t.Errorf("Write after Close: %d, %v", n, err)
		}
		empty(t, s)
	})
}

// slowDisk delays every operation, so that Close runs during each of them.
type slowDisk struct{ file }

func (d slowDisk) WriteAt(b []byte, at int64) (int, error) {
	time.Sleep(time.Duration(1+rand.IntN(3)) * time.Millisecond)
	if rand.IntN(4) == 0 {
		n, _ := d.file.WriteAt(b[:len(b)/2], at)
		return n, io.ErrShortWrite
	}
	return d.file.WriteAt(b, at)
}

func (d slowDisk) ReadAt(b []byte, at int64) (int, error) {
	time.Sleep(time.Duration(1+rand.IntN(3)) * time.Millisecond)
	return d.file.ReadAt(b, at)
}

func TestCloseAtAnyMoment(t *testing.T) {
	for i := range 50 {
		synctest.Test(t, func(t *testing.T) {
			d := &faultyDisk{room: 3 << 20}
			s := d.on(Limits{Memory: 1 << 20, Address: 1}, 1<<30)
			s.open = func(dir string) (file, error) {
				f, err := d.openFile(dir)
				return slowDisk{f}, err
			}
			p := s.Open(anybody, 32<<10, 1<<30)
			var both sync.WaitGroup
			both.Go(func() {
				for b := make([]byte, 40_000); ; {
					if _, err := p.Write(b); err != nil {
						return
					}
				}
			})
			both.Go(func() {
				for b := make([]byte, 30_000); ; {
					if _, err := p.Read(b); err != nil {
						return
					}
				}
			})
			time.Sleep(time.Duration(i) * 4 * time.Millisecond)
			synctest.Wait()
			p.Close()
			both.Wait()
			empty(t, s)
			testkit.Same(t, 0, d.files, "files open")
		})
	}
}
