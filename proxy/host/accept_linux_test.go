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
	"sync"
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
	childDoes   = "TEMPOMAT_TEST_DOES"  // what it does where it has many connections:
	sheds       = "sheds"               // it closes the oldest for the next
	bounds      = "bounds"              // it has a connlimit.Table
	childLimit  = 64
	tableLimit  = 256 // of a child with a table
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
	sheds bool
	table *connlimit.Table // nil: no bound

	mu      sync.Mutex
	clients []net.Conn // oldest first
}

// serve runs in the child until its standard input ends.
func serve(path string) error {
	s := &serverChild{sheds: os.Getenv(childDoes) == sheds}
	limit := syscall.Rlimit{Cur: childLimit, Max: childLimit}
	if os.Getenv(childDoes) == bounds {
		limit = syscall.Rlimit{Cur: tableLimit, Max: tableLimit}
		s.table = connlimit.New(time.Now(), ForClients(tableLimit))
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	r, err := NewReserve()
	if err != nil {
		return err
	}
	site, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	socket, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	go s.accept(r.Clients(site, s.shed), s.echo)
	go s.accept(r.Admin(socket), s.answer)
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

func (s *serverChild) shed(error) {
	s.full.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sheds && len(s.clients) > 0 {
		s.clients[0].Close()
		s.clients = s.clients[1:]
	}
}

// echo sends everything back.
func (s *serverChild) echo(c net.Conn) {
	if s.table != nil {
		s.echoInTable(c)
		return
	}
	s.mu.Lock()
	s.clients = append(s.clients, c)
	s.mu.Unlock()
	io.Copy(c, c)
	c.Close()
}

// echoInTable sends each byte back, as an answer to a request.
func (s *serverChild) echoInTable(c net.Conn) {
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

// answer tells, for each line, how often there was no descriptor, and whether there is one.
func (s *serverChild) answer(c net.Conn) {
	defer c.Close()
	for in := bufio.NewScanner(c); in.Scan(); {
		now := "free"
		if f, err := os.Open(os.DevNull); errors.Is(err, syscall.EMFILE) {
			now = "exhausted"
		} else {
			f.Close()
		}
		fmt.Fprintln(c, s.full.Load(), now)
	}
}

// start starts a child and returns the addresses of its site and of its admin socket.
func start(t *testing.T, does string) (site, socket string) {
	socket = t.TempDir() + "/socket"
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childSocket+"="+socket, childDoes+"="+does)
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

// flood opens many more connections than the child has descriptors, and waits until it
// has none.
func flood(t *testing.T, site, socket string) (conns []net.Conn) {
	for range 4 * childLimit {
		conns = append(conns, connect(t, "tcp", site))
	}
	c := connect(t, "unix", socket)
	defer c.Close()
	for strings.HasPrefix(ask(t, c, "full?"), "0 ") {
		time.Sleep(time.Millisecond) // the child says when; a hang ends by the deadline
	}
	return conns
}

// With no descriptor left the admin socket answers, always, and several at a time.
func TestAdminAnswersWithoutDescriptors(t *testing.T) {
	site, socket := start(t, "")
	flood(t, site, socket)
	exhausted := 0
	for range 100 {
		c := connect(t, "unix", socket)
		if strings.HasSuffix(ask(t, c, "well?"), " exhausted") {
			exhausted++
		}
		c.Close()
	}
	t.Logf("%d answers of 100 without a descriptor left", exhausted)
	if exhausted < 50 {
		t.Errorf("the server had no descriptor left for %d answers of 100 only", exhausted)
	}
	for range spares {
		ask(t, connect(t, "unix", socket), "all at once?")
	}
}

func TestClientsAreServedOnceThereAreDescriptors(t *testing.T) {
	site, socket := start(t, "")
	for _, c := range flood(t, site, socket) {
		c.Close()
	}
	if got := ask(t, connect(t, "tcp", site), "hello"); got != "hello" {
		t.Error(got)
	}
	ask(t, connect(t, "unix", socket), "well?")
}

// An owner that closes something when told gets newcomers in, though nobody leaves.
func TestNewcomersGetInWhereOthersAreClosed(t *testing.T) {
	site, socket := start(t, sheds)
	flood(t, site, socket)
	for range 2 * childLimit {
		if got := ask(t, connect(t, "tcp", site), "hello"); got != "hello" {
			t.Fatal(got)
		}
	}
	ask(t, connect(t, "unix", socket), "well?")
}

// One address opens three times as many connections as there are descriptors. A person
// of another keeps a connection all the while, others come, and descriptors never run out.
func TestFloodFromOneAddress(t *testing.T) {
	site, socket := start(t, bounds)
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
	for n := range 3 * tableLimit {
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
	if answer := ask(t, connect(t, "unix", socket), "full?"); !strings.HasPrefix(answer, "0 ") {
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

func TestForClients(t *testing.T) {
	for limit, want := range map[uint64]int{
		0:       1,
		64:      8,
		128:     16,
		256:     64,
		1024:    448,
		65536:   32704,
		262144:  131008,
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
		if n < last || n < 1 || limit > 0 && uint64(n) > max(1, limit/2) {
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
