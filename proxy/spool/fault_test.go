package spool

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"tempomat/internal/testkit"
)

// faultyDisk is a disk in memory that fails in the ways that disks do.
type faultyDisk struct {
	mu    sync.Mutex
	room  int                      // bytes until it is full
	fault func(n int) (int, error) // result of a write of n bytes; nil: the write succeeds
	open  error                    // why no file can be opened
	read  error                    // why no file can be read
	files int
}

type faultyFile struct {
	disk *faultyDisk
	data []byte
	gone bool
}

func (d *faultyDisk) openFile(string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open != nil {
		return nil, d.open
	}
	d.files++
	return &faultyFile{disk: d}, nil
}

func (f *faultyFile) WriteAt(b []byte, at int64) (n int, err error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	n = len(b)
	if f.disk.fault != nil {
		n, err = f.disk.fault(len(b))
	}
	if n > f.disk.room {
		n, err = f.disk.room, syscall.ENOSPC
	}
	if grow := int(at) + n - len(f.data); grow > 0 {
		f.data = append(f.data, make([]byte, grow)...)
		f.disk.room -= grow
	}
	copy(f.data[at:], b[:n])
	return n, err
}

func (f *faultyFile) ReadAt(b []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.read != nil {
		return 0, f.disk.read
	}
	return bytes.NewReader(f.data).ReadAt(b, at)
}

func (f *faultyFile) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.gone {
		return errors.New("closed twice")
	}
	f.gone = true
	f.disk.room += len(f.data)
	f.disk.files--
	return nil
}

// on returns a Store whose files are on the disk and may take most bytes.
func (d *faultyDisk) on(l Limits, most int64) *Store {
	s := NewStore(l)
	s.open = d.openFile
	s.free = func(string) (int64, int64, error) { return 2*most - s.Stats().Disk, 0, nil }
	return s
}

// TestModel: all bytes that are written are read, in order. The reader and the writer take turns at random, and
// the disk fails at random.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &faultyDisk{room: rapid.IntRange(0, 1<<20).Draw(t, "room")}
		l := Limits{
			Memory:  rapid.Int64Range(0, 128<<10).Draw(t, "memory"),
			Address: rapid.SampledFrom([]float64{1, 0.5, 0}).Draw(t, "address"),
		}
		limit := rapid.Int64Range(1, 1<<20).Draw(t, "disk")
		s := d.on(l, limit)
		most := rapid.Int64Range(0, 1<<20).Draw(t, "most")
		p := s.Open(anybody, rapid.Int64Range(0, 100<<10).Draw(t, "own memory"), most)
		var model bytes.Buffer
		source := text(1 << 20)
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				b := source[next%len(source):]
				b = b[:min(len(b), rapid.IntRange(0, 300_000).Draw(t, "bytes"))]
				n := p.TryWrite(b)
				if n < 0 || n > len(b) {
					t.Fatalf("TryWrite took %d of %d", n, len(b))
				}
				model.Write(b[:n])
				next += n
			},
			"read": func(t *rapid.T) {
				if model.Len() == 0 {
					t.Skip("would wait")
				}
				b := make([]byte, rapid.IntRange(1, 200_000).Draw(t, "bytes"))
				n, err := p.Read(b)
				if err != nil || n == 0 || !bytes.Equal(b[:n], model.Next(n)) {
					t.Fatalf("Read: %d, %v", n, err)
				}
			},
			"disk": func(t *rapid.T) {
				d.fault, d.open = nil, nil
				switch rapid.IntRange(0, 3).Draw(t, "fault") {
				case 1:
					d.open = syscall.EMFILE
				case 2:
					part := rapid.IntRange(0, 4).Draw(t, "quarters")
					d.fault = func(n int) (int, error) { return n * part / 4, syscall.EIO }
				}
			},
			"limits": func(t *rapid.T) {
				l.Memory = rapid.Int64Range(0, 128<<10).Draw(t, "memory")
				s.SetLimits(l)
			},
			"": func(t *rapid.T) {
				stats := s.Stats()
				held := p.Buffered()
				switch {
				case held != int64(model.Len()):
					t.Fatalf("Buffered is %d, want %d", held, model.Len())
				case held > most:
					t.Fatalf("%d bytes are kept, at most %d may be", held, most)
				case stats.Disk > limit || stats.Memory > 128<<10 || stats.Files != int64(d.files) || d.files > 1:
					t.Fatalf("beyond its limits: %+v, %d files", stats, d.files)
				case held == 0 && (stats.Memory|stats.Disk|stats.Files) != 0:
					t.Fatalf("an empty spool holds %+v", stats)
				case stats.Disk != p.file.end:
					t.Fatalf("%d bytes of the disk are reserved, the file has %d", stats.Disk, p.file.end)
				case held > stats.Memory+stats.Disk:
					t.Fatalf("%d bytes are kept in %+v", held, stats)
				}
			},
		})
		p.CloseWrite(nil)
		rest, err := io.ReadAll(p)
		if err != nil || !bytes.Equal(rest, model.Bytes()) {
			t.Fatalf("the rest: %d bytes, %v; want %d", len(rest), err, model.Len())
		}
		p.Close()
		if got := s.Stats(); got.Memory|got.Disk|got.Files|got.Spools != 0 || d.files != 0 {
			t.Fatalf("left: %+v", got)
		}
	})
}

// TestBothSidesAtOnce runs both sides at once, at random paces, on a disk that fails at random.
func TestBothSidesAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		every := rapid.IntRange(2, 9).Draw(t, "every")
		writes := 0
		d := &faultyDisk{room: rapid.IntRange(0, 1<<20).Draw(t, "room"), fault: func(n int) (int, error) {
			if writes++; writes%every == 0 {
				return n / every, syscall.ENOSPC
			}
			return n, nil
		}}
		s := d.on(Limits{Memory: 1 << 20, Address: rapid.SampledFrom([]float64{1, 0.1}).Draw(t, "address")}, 1<<20)
		p := s.Open(anybody, rapid.Int64Range(0, 64<<10).Draw(t, "memory"), rapid.Int64Range(0, 1<<20).Draw(t, "most"))
		want := text(rapid.IntRange(0, 300_000).Draw(t, "bytes"))
		sizes := rapid.SliceOfN(rapid.IntRange(500, 100_000), 1, 8).Draw(t, "writes")
		reads := rapid.SliceOfN(rapid.IntRange(500, 100_000), 1, 8).Draw(t, "reads")
		failed := make(chan error, 1)
		go func() {
			defer close(failed)
			for b, i := want, 0; len(b) > 0; i++ {
				n := min(len(b), sizes[i%len(sizes)])
				if got, err := p.Write(b[:n]); got != n || err != nil {
					failed <- fmt.Errorf("Write: %d of %d: %w", got, n, err)
					break
				}
				b = b[n:]
			}
			p.CloseWrite(nil)
		}()
		var got []byte
		for i := 0; ; i++ {
			b := make([]byte, reads[i%len(reads)])
			n, err := p.Read(b)
			got = append(got, b[:n]...)
			if err != nil {
				break
			}
		}
		testkit.Must(t, <-failed)
		p.Close()
		if !bytes.Equal(got, want) {
			t.Fatalf("got %d bytes, want %d", len(got), len(want))
		}
		if left := s.Stats(); left.Memory|left.Disk|left.Files|left.Spools != 0 || d.files != 0 {
			t.Fatalf("left: %+v", left)
		}
	})
}

func TestFileThatCannotBeReadBack(t *testing.T) {
	d := &faultyDisk{room: 1 << 20}
	s := d.on(roomy(t), 1<<30)
	p := s.Open(anybody, 0, 1<<20)
	testkit.Same(t, 1000, p.TryWrite(text(1000)), "TryWrite took")
	d.read = syscall.EIO
	for range 2 {
		if n, err := p.Read(make([]byte, 100)); n != 0 || !errors.Is(err, syscall.EIO) {
			t.Errorf("Read: %d, %v", n, err)
		}
	}
	if n, err := p.Write(text(1000)); n != 0 || !errors.Is(err, syscall.EIO) {
		t.Errorf("Write: %d, %v", n, err)
	}
	p.Close()
	empty(t, s)
}

// TestFailedDiskIsTriedAgain: a disk that failed is tried again with the next bytes, but counted only once.
func TestFailedDiskIsTriedAgain(t *testing.T) {
	d := &faultyDisk{room: 1 << 30, open: syscall.EMFILE}
	s := d.on(roomy(t), 1<<30)
	p := s.Open(anybody, 16<<10, 1<<30)
	defer p.Close()
	for _, want := range []int{16 << 10, 0, 0} {
		testkit.Same(t, want, p.TryWrite(text(100<<10)), "bytes taken")
	}
	d.open = nil
	testkit.Same(t, 100<<10, p.TryWrite(text(100<<10)), "bytes taken with a sound disk")
	if got := s.Stats(); got.Errors != 1 || got.Files != 1 {
		t.Errorf("%+v", got)
	}
}

// TestLongTransferUsesLittle: however long a transfer is, its file is no longer than what the spool may keep.
func TestLongTransferUsesLittle(t *testing.T) {
	const most = 1 << 20
	d := &faultyDisk{room: 1 << 30}
	s := d.on(roomy(t), 1<<30)
	p := s.Open(anybody, 0, most)
	for sent := 0; sent < 20*most; {
		sent += p.TryWrite(text(300_000))
		if n, err := p.Read(make([]byte, 200_000)); n == 0 || err != nil {
			t.Fatal(n, err)
		}
		if got := s.Stats().Disk; got > most {
			t.Fatalf("%d bytes of the disk are in use", got)
		}
	}
	p.Close()
	empty(t, s)
}

func TestFullFileSystem(t *testing.T) {
	dir := testkit.SmallDisk(t, 1024)
	s := NewStore(Limits{Directory: dir, Memory: 1 << 20, Address: 1})
	s.free = func(string) (int64, int64, error) { return 1 << 40, 1 << 40, nil } // the Store notices the full disk only when a write fails
	p := s.Open(anybody, 32<<10, 1<<30)
	if n := p.TryWrite(text(3 << 20)); n < 1<<20 || n > 1<<20+48<<10 {
		t.Errorf("took %d", n)
	}
	testkit.Same(t, 1, s.Stats().Errors, "errors")
	p.Close()
	p = s.Open(anybody, 32<<10, 1<<30)
	passes(t, p, text(5<<20))
	p.Close()
	empty(t, s)
	s = NewStore(Limits{Directory: dir, Memory: 1 << 20, Address: 1}) // the Store knows how small the disk is
	p = s.Open(anybody, 0, 1<<30)
	if n := p.TryWrite(text(3 << 20)); n > 1<<19 {
		t.Errorf("took %d, which is more than half", n)
	}
	p.Close()
	p = s.Open(anybody, 0, 1<<30)
	passes(t, p, text(5<<20))
	p.Close()
	empty(t, s)
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	if err := Check(dir); err != nil && !isMemory(dir) {
		t.Error(err)
	}
	if err := Check(dir + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no directory: %v", err)
	}
	if err := Check(testkit.SmallDisk(t, 1024)); err == nil || !strings.Contains(err.Error(), "in memory") {
		t.Errorf("of a tmpfs: %v", err)
	}
}

// TestKilled: a killed process leaves no files.
func TestKilled(t *testing.T) {
	const variable = "SPOOL_TEST_DIRECTORY"
	if dir := os.Getenv(variable); dir != "" {
		spoolForever(t, dir)
	}
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	child.Env = append(os.Environ(), variable+"="+dir)
	out, err := child.StdoutPipe()
	testkit.Must(t, err)
	testkit.Must(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "spooled\n" {
		t.Errorf("the child says %q, %v", line, err)
	}
	testkit.Must(t, child.Process.Kill())
	_ = child.Wait() // fails, because the child was killed
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// spoolForever is the child: it fills files and waits to be killed.
func spoolForever(t *testing.T, dir string) {
	s := NewStore(Limits{Directory: dir, Address: 1})
	for range 10 {
		testkit.Same(t, 100_000, s.Open(anybody, 0, 1<<30).TryWrite(text(100_000)), "TryWrite took")
	}
	if got := s.Stats(); got.Files != 10 || got.Errors != 0 {
		t.Fatalf("%+v", got)
	}
	_, _ = os.Stdout.WriteString("spooled\n")
	select {}
}
