package spool

import (
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tempomat/internal/testkit"
)

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
