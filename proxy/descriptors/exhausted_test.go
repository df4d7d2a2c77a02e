package descriptors

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
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
	goleak.VerifyTestMain(m)
}

// child is what the server process knows.
type child struct {
	full  atomic.Int64 // times that there was no descriptor
	sheds bool
	table *connlimit.Table // nil: no bound

	mu      sync.Mutex
	clients []net.Conn // oldest first
}

// serve runs in the child until its standard input ends.
func serve(path string) error {
	s := &child{sheds: os.Getenv(childDoes) == sheds}
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

func (s *child) accept(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		go serve(c)
	}
}

func (s *child) shed(error) {
	s.full.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sheds && len(s.clients) > 0 {
		s.clients[0].Close()
		s.clients = s.clients[1:]
	}
}

// echo sends everything back.
func (s *child) echo(c net.Conn) {
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
func (s *child) echoInTable(c net.Conn) {
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
func (s *child) answer(c net.Conn) {
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
