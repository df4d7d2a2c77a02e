package descriptors

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// lacking is a listener whose Accept fails for some times, then has a connection.
type lacking struct {
	net.Listener
	err   error
	fails int
	tried []time.Duration
	since time.Time
}

func (l *lacking) Accept() (net.Conn, error) {
	l.tried = append(l.tried, time.Since(l.since))
	if l.fails--; l.fails >= 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", l.err)}
	}
	ours, _ := net.Pipe()
	return ours, nil
}

func (l *lacking) Close() error { return nil }

func newReserve(t *testing.T) *Reserve {
	r, err := NewReserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *Reserve) left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.files)
}

func TestClientsAreTriedAgain(t *testing.T) {
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		t.Run(lack.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := 0
				inner := &lacking{err: lack, fails: 10, since: time.Now()}
				l := newReserve(t).Clients(inner, func(err error) {
					if !errors.Is(err, lack) {
						t.Error(err)
					}
					told++
				})
				c, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				_ = c.Close()
				var want []time.Duration
				for _, ms := range []int{0, 5, 15, 35, 75, 155, 315, 635, 1275, 2275, 3275} {
					want = append(want, time.Duration(ms)*time.Millisecond)
				}
				if !slices.Equal(inner.tried, want) || told != 10 {
					t.Errorf("tried after %v, want %v; told %d times", inner.tried, want, told)
				}
			})
		})
	}
}

func TestOtherErrorsEndAccept(t *testing.T) {
	r := newReserve(t)
	for _, wrap := range []func(net.Listener) net.Listener{
		func(l net.Listener) net.Listener { return r.Clients(l, func(error) { t.Error("told") }) },
		r.Admin,
	} {
		if _, err := wrap(&lacking{err: syscall.EINVAL, fails: 1}).Accept(); !errors.Is(err, syscall.EINVAL) {
			t.Error(err)
		}
	}
	if n := r.left(); n != spares {
		t.Errorf("%d spare ones are left", n)
	}
}

func TestCloseEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReserve(t)
		for i, l := range []net.Listener{
			r.Clients(&lacking{err: syscall.EMFILE, fails: 1 << 30}, nil),
			r.Admin(&lacking{err: syscall.EMFILE, fails: 1 << 30}),
		} {
			ended := make(chan error)
			go func() { _, err := l.Accept(); ended <- err }()
			synctest.Wait()
			for range 2 {
				if err := l.Close(); err != nil {
					t.Error(i, err)
				}
			}
			if err := <-ended; !errors.Is(err, net.ErrClosed) {
				t.Error(i, err)
			}
		}
	})
}

func TestAdminUsesTheReserve(t *testing.T) {
	r := newReserve(t)
	var open []net.Conn
	for n := range spares {
		c, err := r.Admin(&lacking{err: syscall.EMFILE, fails: 1}).Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got := r.left(); got != spares-1-n {
			t.Fatalf("%d connections, %d spare ones are left", n+1, got)
		}
		open = append(open, c)
	}
	for _, c := range open {
		_ = c.Close()
		if got := r.left(); got != spares {
			t.Errorf("%d are spare after a connection was closed", got)
		}
	}
}

// Clients get nothing before the reserve is whole again.
func TestReserveComesBeforeClients(t *testing.T) {
	r := newReserve(t)
	if _, err := r.Admin(&lacking{err: syscall.ENFILE, fails: spares}).Accept(); err != nil {
		t.Fatal(err)
	}
	if got := r.left(); got != 0 {
		t.Fatalf("%d spare ones are left", got)
	}
	if _, err := r.Clients(&lacking{}, nil).Accept(); err != nil {
		t.Fatal(err)
	}
	if got := r.left(); got != spares {
		t.Errorf("%d spare ones", got)
	}
}

// quiet is lacking as long as nobody connects.
type quiet struct {
	*lacking
	syscall.Conn
}

// While nobody connects, nothing is given up, and what was is taken back.
func TestReserveIsKeptForConnections(t *testing.T) {
	real, err := new(net.ListenConfig).Listen(t.Context(), "unix", t.TempDir()+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	r := newReserve(t)
	r.giveUp()
	l := quiet{&lacking{err: syscall.EMFILE, fails: 3}, real.(*net.UnixListener)}
	c, err := r.Admin(l).Accept()
	if err != nil {
		t.Fatal(err)
	}
	if got := r.left(); got != spares {
		t.Errorf("%d spare ones are left", got)
	}
	_ = c.Close()
}

func TestHasConnection(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", t.TempDir()+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	p := newPatient(l)
	if p.hasConnection() {
		t.Error("nobody has connected")
	}
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !p.hasConnection() {
		t.Error("somebody waits")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if !p.hasConnection() {
		t.Error("of a closed one nothing is known")
	}
}

func TestClosedReserveStaysClosed(t *testing.T) {
	r := newReserve(t)
	r.giveUp()
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Fatal(err)
	}
	r.takeBack()
	if r.giveUp() || r.left() != 0 {
		t.Error("a closed reserve has descriptors")
	}
	if s := fmt.Sprint(r.short.Load()); s != "false" {
		t.Error("it looks for some")
	}
}
