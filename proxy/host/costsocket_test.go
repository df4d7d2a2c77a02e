package host

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"tempomat/cpuaccount/process"
	"tempomat/internal/testkit"
)

// costSocket listens, and sends.
type costSocket struct {
	t       *testing.T
	claims  *claims
	numbers *Numbers
	to      *net.UnixConn
}

func newCostSocket(t *testing.T) *costSocket {
	t.Helper()
	current := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, current) })
	path := filepath.Join(t.TempDir(), "w.sock")
	listener, err := OpenCostSocket(path)
	if err != nil {
		t.Fatal(err)
	}
	e := &costSocket{t: t, claims: newClaims(), numbers: newNumbers()}
	ctx, stop := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	runs.Go(func() { listener.run(ctx, e.claims, e.numbers) })
	t.Cleanup(func() { stop(); runs.Wait(); e.claims.opened.close() })
	if e.to, err = net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.to.Close() })
	return e
}

// send sends as the files in deploy do: if there is no room, not at all.
func (e *costSocket) send(text string) (sent bool) {
	raw, err := e.to.SyscallConn()
	if err != nil {
		e.t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { err = unix.Send(int(fd), []byte(text), unix.MSG_DONTWAIT) })
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		e.t.Fatal(err)
	}
	return err == nil
}

// await waits until a request is claimed, as often as there is room for what is said.
func (e *costSocket) await(n Number, text string) *claim {
	e.t.Helper()
	var c *claim
	testkit.Eventually(e.t, "somebody is heard", func() bool {
		e.send(text)
		c = e.claims.of(n)
		return c != nil
	})
	return c
}

// TestTold has a process say what it serves, and the kernel say which one that was.
func TestTold(t *testing.T) {
	e := newCostSocket(t)
	n, text := e.numbers.Next()
	c := e.await(n, "+"+text)
	if c.id.PID != os.Getpid() || !c.id.Alive() || c.base.CPU <= 0 {
		t.Errorf("%+v, which had used %+v", c.id, c.base)
	}
	_, u := c.final()
	if u {
		t.Error("it has served it already")
	}
	testkit.Eventually(t, "it is heard that it has ended", func() bool {
		e.send("-" + text)
		_, u = c.final()
		return u
	})
	if !c.serves() {
		t.Error("another is taken to have served it, too")
	}
}

// TestLies has a process send thousands of messages that it has no reason to send. None is
// kept, one that is sound is heard all the same, and nothing grows.
func TestLies(t *testing.T) {
	e := newCostSocket(t)
	_, foreign := newNumbers().Next()
	lies := []string{
		"", "+", "-", "+" + foreign, "-" + foreign, foreign, "+" + strings.Repeat("0", numberLength),
		strings.Repeat("+", 63), "+" + strings.Repeat("z", numberLength), "\x00\xff\n\x1b]0;", strings.Repeat("a", 60000),
	}
	sent := 0
	for i := range 20000 {
		if e.send(lies[i%len(lies)]) {
			sent++
		}
	}
	if sent == 0 {
		t.Fatal("nothing was sent")
	}
	n, text := e.numbers.Next()
	e.await(n, "+"+text)
	if len(e.claims.byPID) != 1 || len(e.claims.byNumber) != 1 {
		t.Errorf("after %d lies %d processes have %d requests", sent, len(e.claims.byPID), len(e.claims.byNumber))
	}
}

// TestDescriptorsAreNotTaken has a process send descriptors along with what it says.
func TestDescriptorsAreNotTaken(t *testing.T) {
	e := newCostSocket(t)
	first, said := e.numbers.Next()
	e.await(first, "+"+said) // who speaks is kept open
	before := descriptors(t)
	n, text := e.numbers.Next()
	raw, err := e.to.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { err = unix.Sendmsg(int(fd), []byte("+"+text), unix.UnixRights(1, 1, 1, 1), nil, 0) })
	if err != nil {
		t.Fatal(err)
	}
	e.await(n, "+"+text)
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, and %d before", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

func TestListen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "w.sock")
	for i := range 2 { // the second in place of the first, as of a process that was killed
		e, err := OpenCostSocket(path)
		if err != nil {
			t.Fatal(i, err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o666 {
			t.Error(info.Mode(), err)
		}
		defer func() { _ = e.conn.Close() }()
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{file, filepath.Join(dir, "none", "w.sock")} {
		if e, err := OpenCostSocket(bad); err == nil {
			_ = e.conn.Close()
			t.Errorf("listens at %s", bad)
		}
	}
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
		t.Error("the file is gone")
	}
}

// TestWorksOn: what a process uses after it said that it is done is the request's, until it goes
// on to another one.
func TestWorksOn(t *testing.T) {
	id, before, err := look(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	usage := func() (process.Usage, error) { _, u, err := look(id.PID); return u, err }
	c := newClaims()
	c.begins(at(0), id, before, 1)
	c.ends(id, before, 1)
	x := c.of(1)
	if u, err := x.used(usage); err != nil || u.CPU-before.CPU > between {
		t.Errorf("at once it has used %v more, %v", u.CPU-before.CPU, err)
	}
	now := before
	for now.CPU-before.CPU <= 3*between { // it computes
		if now, err = usage(); err != nil {
			t.Fatal(err)
		}
	}
	u, err := x.used(usage)
	if err != nil || u.CPU < now.CPU {
		t.Errorf("it has used %v, %v, want %v at least", u.CPU, err, now.CPU)
	}
	c.begins(at(1), id, u, 2)
	for more := u; more.CPU-u.CPU <= 3*between; {
		if more, err = usage(); err != nil {
			t.Fatal(err)
		}
	}
	if after, _ := x.used(usage); after != u {
		t.Errorf("with another one it has used %v, want %v", after.CPU, u.CPU)
	}
}

// TestOthersSocket: the socket of a program that serves something else is left alone.
func TestOthersSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fpm.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if _, err := OpenCostSocket(path); err == nil || !strings.Contains(err.Error(), "another program's") {
		t.Error(err)
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

// TestSeveral: a process with one of the backend's connections may serve one request at a time;
// one with two does not.
func TestSeveral(t *testing.T) {
	for name, address := range map[string][2]string{"tcp": {"tcp", "127.0.0.1:0"}, "unix": {"unix", filepath.Join(t.TempDir(), "b.sock")}} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen(address[0], address[1])
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			backend := &url.URL{Scheme: "http", Host: l.Addr().String()}
			if name == "unix" {
				backend = &url.URL{Scheme: "unix", Path: address[1]}
			}
			f, err := OpenFinder(backend)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for n, want := range []bool{false, false, true} {
				if n > 0 {
					for _, open := range []func() (net.Conn, error){func() (net.Conn, error) { return net.Dial(address[0], l.Addr().String()) }, l.Accept} {
						c, err := open()
						if err != nil {
							t.Fatal(err)
						}
						defer func() { _ = c.Close() }()
					}
				}
				if got := f.several(at(float64(n)), os.Getpid()); got != want {
					t.Errorf("with %d connections: %t", n, got)
				}
			}
		})
	}
}
