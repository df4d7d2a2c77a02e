package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"tempomat/internal/testkit"
)

// fakeProc makes a file system of processes with descriptors.
func fakeProc(of map[int]map[int]string, info map[string]string) fs.FS {
	root := tree(info)
	root["proc/uptime"] = &fstest.MapFile{}
	for pid, fds := range of {
		for fd, link := range fds {
			root[procFile(pid, fmt.Sprint("fd/", fd))] = &fstest.MapFile{Data: []byte(link), Mode: fs.ModeSymlink}
		}
	}
	return root
}

func TestDescriptors(t *testing.T) {
	p := fakeProc(map[int]map[int]string{
		7: {0: "/dev/null", 3: "socket:[100]", 9: "socket:[200]", 10: "anon_inode:[eventpoll]"},
		8: {3: "socket:[100]", 4: "pipe:[200]", 5: "socket:[]", 6: "socket:[x]"},
	}, map[string]string{"proc/7/fdinfo/10": "pos:\t0\ntfd:        3 events: 19\ntfd:       19 events: 19\n"})
	if pids, err := numbered(p, "proc", 100); err != nil || !slices.Equal(pids, []int{7, 8}) {
		t.Errorf("processes %v, %v", pids, err)
	}
	for _, c := range []struct {
		pid   int
		inode uint32
		want  int
	}{{7, 200, 9}, {7, 100, 3}, {8, 100, 3}, {8, 200, -1}, {7, 20, -1}, {99, 100, -1}} {
		if fd, err := descriptorOf(p, c.pid, c.inode); fd != c.want || (err != nil) != (c.pid == 99) {
			t.Errorf("%d has %d as %d, %v; want %d", c.pid, c.inode, fd, err, c.want)
		}
	}
	for fd, want := range map[int]bool{3: true, 9: false, 19: true} {
		testkit.Same(t, want, servesMany(p, 7, fd), "it waits for descriptor %d with others", fd)
	}
	if servesMany(p, 8, 3) {
		t.Error("one without an epoll waits by it")
	}
	ring := fakeProc(map[int]map[int]string{7: {3: "socket:[1]", 4: "anon_inode:[io_uring]"}}, nil)
	if !servesMany(ring, 7, 3) {
		t.Error("one with an io_uring serves one at a time")
	}
}

// toBackend returns a Finder for a backend, the backend's listener, and a connection that the backend hasn't
// accepted. If this machine doesn't have the network, the test is skipped.
func toBackend(t *testing.T, network string) (*Finder, net.Listener, net.Conn) {
	t.Helper()
	address := map[string]string{"tcp": "127.0.0.1:0", "tcp6": "[::1]:0", "unix": filepath.Join(t.TempDir(), "b.sock")}[network]
	l, err := net.Listen(network, address)
	if err != nil && network != "tcp" {
		t.Skip(err)
	}
	testkit.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	u := &url.URL{Scheme: "http", Host: l.Addr().String()}
	if network == "unix" {
		u = &url.URL{Scheme: "unix", Path: address}
	}
	f, err := OpenFinder(u)
	testkit.Must(t, err)
	t.Cleanup(f.Close)
	return f, l, dial(t, network, l.Addr().String(), 1)
}

// TestFindsItself makes this process the backend. It is found, and counts as serving several requests at once.
func TestFindsItself(t *testing.T) {
	for _, network := range []string{"tcp", "tcp6", "unix"} {
		t.Run(network, func(t *testing.T) {
			f, l, c := toBackend(t, network)
			s, err := l.Accept()
			testkit.Must(t, err)
			seat, err := f.Find(at(0), c)
			if err != nil || seat.PID != os.Getpid() || !f.holds(&seat) || !servesMany(f.root, seat.PID, seat.fd) {
				t.Fatalf("%+v, %v", seat, err)
			}
			_ = s.Close()
			if _, err := io.ReadAll(c); err != nil {
				t.Fatal(err)
			}
			if f.holds(&seat) {
				t.Error("it holds what it has closed")
			}
			if _, err := f.Find(at(100), c); !errors.Is(err, errLater) {
				t.Errorf("what is closed: %v", err)
			}
		})
	}
}

// TestClosedIsNotWaiting checks that a closed connection whose last bytes are still in transit doesn't count as
// one that the backend has yet to accept.
func TestClosedIsNotWaiting(t *testing.T) {
	f, l, c := toBackend(t, "tcp")
	if _, err := f.Find(at(0), c); !errors.Is(err, errWaits) {
		t.Fatalf("nobody has accepted it: %v", err)
	}
	s, err := l.Accept()
	testkit.Must(t, err)
	_ = s.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	for err == nil { // until the buffers are full
		_, err = s.Write(make([]byte, 1<<20))
	}
	_ = s.Close()
	if _, err := f.Find(at(1), c); !errors.Is(err, errLater) {
		t.Errorf("it was closed, and is not sent: %v", err)
	}
}

// TestNotFound checks why a process isn't found.
func TestNotFound(t *testing.T) {
	f, l, c := toBackend(t, "tcp")
	f.root = fakeProc(nil, nil)
	s, err := l.Accept()
	testkit.Must(t, err)
	defer func() { _ = s.Close() }()
	if _, err := f.Find(at(0), c); !errors.Is(err, ErrHidden) {
		t.Errorf("in another PID namespace: %v", err)
	}
	if _, err := f.Find(at(0.1), c); !errors.Is(err, errLater) {
		t.Errorf("at once again: %v", err)
	}
	if _, err := f.Find(at(100), elsewhere{c}); err == nil {
		t.Error("a connection that the kernel does not know is found")
	}
}

// elsewhere is a connection whose other end is on another machine.
type elsewhere struct{ net.Conn }

func (elsewhere) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }

// TestLookingIsBounded: a thousand requests wait, and the backend hasn't accepted their connections. The
// tracker looks for them every 20 ms. The searches take a 64th of a CPU, however long each of them takes, and
// each request still gets its turn.
func TestLookingIsBounded(t *testing.T) {
	f, _, c := toBackend(t, "tcp")
	tr := NewTracker(f, nil, func(error) {})
	var used time.Duration
	tr.looking.clock = func() time.Duration { used += 100 * time.Microsecond; return used }
	all := make([]Running, 1000)
	told, last := 0, time.Duration(0)
	for now := time.Duration(0); now < 10*time.Second; now += 20 * time.Millisecond {
		for i := range all {
			all[i] = Running{Conn: c, Began: at(0)}
		}
		tr.Look(at(now.Seconds()), all)
		for i := range all {
			switch all[i].Is {
			case WorkRead:
				told, last = told+1, now
			case WorkSame:
			default:
				t.Fatalf("a request that waits is %d", all[i].Is)
			}
		}
	}
	if most := 170 * time.Millisecond; used/2 > most || told < 1000 || last < 9*time.Second {
		t.Errorf("%v of CPU time for %d looks, the last after %v; at most %v", used/2, told, last, most)
	}
}

// TestSeenAndForgotten checks that the Tracker forgets connections and processes that have ended.
func TestSeenAndForgotten(t *testing.T) {
	tr := NewTracker(nil, nil, func(error) {})
	for i := range 100 {
		tr.worker(at(0), testID(i))
	}
	tr.seats[elsewhere{}] = &seat{used: at(0)}
	tr.sweep(at(1))
	if len(tr.workers) != 100 || len(tr.seats) != 1 {
		t.Error("what was used a moment ago is forgotten")
	}
	tr.sweep(at(1).Add(keepsIdle))
	if len(tr.workers) != 0 || len(tr.seats) != 0 {
		t.Errorf("%d processes and %d connections are kept", len(tr.workers), len(tr.seats))
	}
}

// TestSaysWhatIsNews checks that a reason is reported only once until it changes.
func TestSaysWhatIsNews(t *testing.T) {
	var said []string
	tr := NewTracker(nil, nil, func(err error) { said = append(said, fmt.Sprint(err != nil)) })
	for _, err := range []error{ErrRight, ErrRight, nil, nil, ErrHidden, ErrRight, ErrRight} {
		tr.say(err)
	}
	testkit.Same(t, []string{"true", "false", "true", "true"}, said, "said")
}
