package host

import (
	"context"
	"errors"
	"net"
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

// costSocket is an open cost socket, and a connection to it.
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
	testkit.Must(t, err)
	e := &costSocket{t: t, claims: newClaims(), numbers: newNumbers()}
	ctx, stop := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	runs.Go(func() { listener.run(ctx, e.claims, e.numbers) })
	t.Cleanup(func() { stop(); runs.Wait(); e.claims.opened.close() })
	e.to, err = net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = e.to.Close() })
	return e
}

// send does the same as the files in deploy: without room, it sends nothing.
func (e *costSocket) send(text string) (sent bool) {
	raw, err := e.to.SyscallConn()
	testkit.Must(e.t, err)
	_ = raw.Control(func(fd uintptr) { err = unix.Send(int(fd), []byte(text), unix.MSG_DONTWAIT) })
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		e.t.Fatal(err)
	}
	return err == nil
}

// await sends text again and again until the request is claimed.
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

// TestTold: this process reports a request, and the kernel says which process sent the report.
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

// TestLies: a process sends thousands of invalid messages. No message is kept, no data structure grows, and a
// valid message is still received.
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
	if e.claims.byPID.Len() != 1 || len(e.claims.byNumber) != 1 {
		t.Errorf("after %d lies %d processes have %d requests", sent, e.claims.byPID.Len(), len(e.claims.byNumber))
	}
}

// TestDescriptorsAreNotTaken: a process sends descriptors along with its message, and they are not kept.
func TestDescriptorsAreNotTaken(t *testing.T) {
	e := newCostSocket(t)
	first, said := e.numbers.Next()
	e.await(first, "+"+said) // the sender's files are open from now on
	before := descriptors(t)
	n, text := e.numbers.Next()
	raw, err := e.to.SyscallConn()
	testkit.Must(t, err)
	_ = raw.Control(func(fd uintptr) { err = unix.Sendmsg(int(fd), []byte("+"+text), unix.UnixRights(1, 1, 1, 1), nil, 0) })
	testkit.Must(t, err)
	e.await(n, "+"+text)
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, and %d before", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	testkit.Must(t, err)
	return len(all)
}

func TestListen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "w.sock")
	for i := range 2 { // the second socket replaces the first, as after a crash
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
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
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

// TestWorksOn: a request pays for its process's CPU use after the reported end, until the process begins
// another request.
func TestWorksOn(t *testing.T) {
	id, before := itself(t)
	usage := func() (process.Usage, error) { _, u, err := look(id.PID); return u, err }
	c := newClaims()
	c.begins(at(0), id, before, 1)
	c.ends(id, before, 1)
	x := c.of(1)
	if u, err := x.used(usage); err != nil || u.CPU-before.CPU > between {
		t.Errorf("at once it has used %v more, %v", u.CPU-before.CPU, err)
	}
	now := before
	for now.CPU-before.CPU <= 3*between { // the process computes
		_, now = itself(t)
	}
	u, err := x.used(usage)
	if err != nil || u.CPU < now.CPU {
		t.Errorf("it has used %v, %v, want %v at least", u.CPU, err, now.CPU)
	}
	c.begins(at(1), id, u, 2)
	for more := u; more.CPU-u.CPU <= 3*between; {
		_, more = itself(t)
	}
	if after, _ := x.used(usage); after != u {
		t.Errorf("with another one it has used %v, want %v", after.CPU, u.CPU)
	}
}

// TestOthersSocket checks that another program's socket is not replaced.
func TestOthersSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fpm.sock")
	l, err := net.Listen("unix", path)
	testkit.Must(t, err)
	defer func() { _ = l.Close() }()
	if _, err := OpenCostSocket(path); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Error(err)
	}
	dial(t, "unix", path, 1)
}
