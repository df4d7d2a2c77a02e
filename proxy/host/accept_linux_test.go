package host

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"tempomat/proxy/connlimit"
)

// The server of these tests is a process of its own, with few descriptors.
const (
	childSocket = "TEMPOMAT_TEST_ADMIN" // set in the child: its admin socket
	childLimit  = 256
	// hang is when a test gives up; nothing is measured with it.
	hang = 30 * time.Second
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childSocket); path != "" {
		if err := serve(path); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(crashVariable) != "" {
		lowerAndWait(os.Args[1:])
	}
	goleak.VerifyTestMain(m)
}

// serverChild is what the server process knows.
type serverChild struct {
	full  atomic.Int64 // times that there was no descriptor
	table *connlimit.Table
}

// serve runs in the child until its standard input ends.
func serve(path string) error {
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: childLimit, Max: childLimit}); err != nil {
		return err
	}
	s := &serverChild{table: connlimit.New(time.Now(), ForClients(childLimit))}
	site, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	socket, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	go s.accept(Patient(site, func(error) { s.full.Add(1) }), s.echo)
	go s.accept(socket, s.answer)
	fmt.Println(site.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func (s *serverChild) accept(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		go serve(c)
	}
}

// echo sends each byte back, as an answer to a request.
func (s *serverChild) echo(c net.Conn) {
	from := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
	in := s.table.Enter(time.Now(), from, false, c)
	if in == nil {
		return
	}
	defer in.Leave()
	defer c.Close()
	for b := make([]byte, 1); ; {
		if n, err := c.Read(b); n == 0 || err != nil || !in.Busy() {
			return
		}
		if _, err := c.Write(b); err != nil || !in.Idle(time.Now()) {
			return
		}
	}
}

// answer tells, for each line, how often there was no descriptor.
func (s *serverChild) answer(c net.Conn) {
	defer c.Close()
	for in := bufio.NewScanner(c); in.Scan(); {
		fmt.Fprintln(c, s.full.Load())
	}
}

// start starts a child and returns the addresses of its site and of its admin socket.
func start(t *testing.T) (site, socket string) {
	socket = t.TempDir() + "/socket"
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childSocket+"="+socket)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	t.Cleanup(func() {
		in.Close()
		said, _ := io.ReadAll(lines)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server: %v: %s", err, said)
		}
	})
	site, err = lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(site), socket
}

// connect connects, until the test ends.
func connect(t *testing.T, network, address string) net.Conn {
	c, err := net.DialTimeout(network, address, hang)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(hang))
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a line and returns the answer.
func ask(t *testing.T, c net.Conn, line string) string {
	t.Helper()
	if _, err := fmt.Fprintln(c, line); err != nil {
		t.Fatal(err)
	}
	answer, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(answer)
}

// One address opens three times as many connections as there are descriptors. A person
// of another keeps a connection all the while, others come, descriptors never run out, and the admin
// socket answers.
func TestFloodFromOneAddress(t *testing.T) {
	site, socket := start(t)
	dial := func(from string) net.Conn {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: hang}).Dial("tcp", site)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(hang))
		return c
	}
	person := dial("127.0.0.2")
	defer person.Close()
	for n := range 3 * childLimit {
		attacker := dial("127.0.0.3")
		defer attacker.Close()
		if n%16 != 0 {
			continue
		}
		newcomer := dial("127.0.0.4")
		for _, c := range []net.Conn{person, newcomer} {
			if got := ask(t, c, "hello"); got != "hello" {
				t.Fatal(got)
			}
		}
		newcomer.Close()
	}
	if answer := ask(t, connect(t, "unix", socket), "full?"); answer != "0" {
		t.Errorf("descriptors ran out: %s", answer)
	}
}

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

func TestClientsAreTriedAgain(t *testing.T) {
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		t.Run(lack.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := 0
				inner := &lacking{err: lack, fails: 10, since: time.Now()}
				l := Patient(inner, func(err error) {
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
	l := Patient(&lacking{err: syscall.EINVAL, fails: 1}, func(error) { t.Error("told") })
	if _, err := l.Accept(); !errors.Is(err, syscall.EINVAL) {
		t.Error(err)
	}
}

func TestCloseEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Patient(&lacking{err: syscall.EMFILE, fails: 1 << 30}, func(error) {})
		ended := make(chan error)
		go func() { _, err := l.Accept(); ended <- err }()
		synctest.Wait()
		for range 2 {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

func TestForClients(t *testing.T) {
	for limit, want := range map[uint64]int{
		0:       1,
		64:      8,
		128:     16,
		256:     42,
		1024:    298,
		65536:   21802,
		262144:  87338,
		1 << 30: 262144,
		1 << 63: 262144, // RLIM_INFINITY is more still
	} {
		if got := ForClients(limit); got != want {
			t.Errorf("of %d descriptors %d are for clients, want %d", limit, got, want)
		}
	}
}

func TestForClientsGrowsWithTheLimit(t *testing.T) {
	last := 0
	for limit := range uint64(600_000) {
		n := ForClients(limit)
		if n < last || n < 1 || limit > 0 && uint64(n) > max(1, limit/3) {
			t.Fatalf("of %d descriptors %d are for clients, of one less %d", limit, n, last)
		}
		last = n
	}
}

func TestLimit(t *testing.T) {
	if n, err := Limit(); err != nil || n < 16 {
		t.Errorf("%d, %v", n, err)
	}
}

// TestSetMode gives sockets their mode, and nothing else.
func TestSetMode(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for link, target := range map[string]string{"link": "file", "other": "socket"} {
		if err := os.Symlink(at(target), at(link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(at("socket"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{"file": false, "link": false, "other": false, "none": false, "socket": true} {
		if err := setMode(at(name)); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]os.FileMode{"file": 0o600, "socket": socketMode} {
		if info, err := os.Stat(at(name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has %v, want %v", name, info.Mode(), want)
		}
	}
}
