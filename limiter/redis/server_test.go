package redis

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m,
		// The client of a cluster puts off its last look at the nodes by up to a second.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// server is a redis-server of its own.
type server struct {
	t       testing.TB
	address string
	args    []string
	command *exec.Cmd
	dir     string
	file    string // of a sentinel: its configuration
}

// startServer starts a redis-server, with arguments as of a configuration file,
// and stops it when the test ends.
func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server")
	}
	s := &server{t: t, address: freeAddress(t), args: args, dir: t.TempDir()}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func freeAddress(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (s *server) start() {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(s.address)
	args := append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no",
		"--daemonize", "no", "--loglevel", "warning", "--logfile", filepath.Join(s.dir, "log"),
	}, s.args...)
	if s.file != "" {
		args = []string{s.file, "--sentinel", "--port", port, "--bind", "127.0.0.1", "--logfile", filepath.Join(s.dir, "log")}
	}
	s.command = exec.Command("redis-server", args...)
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.command.Start(); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "redis-server listens", func() bool {
		c, err := net.Dial("tcp", s.address)
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
}

func (s *server) kill() {
	if s.command != nil {
		s.command.Process.Kill()
		s.command.Wait()
		s.command = nil
	}
}

func (s *server) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.command.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) options() Options {
	return Options{Addresses: []string{s.address}, Timeout: 10 * time.Second}
}

// direct is a connection of the test's own.
func (s *server) direct() rueidis.Client {
	s.t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.address}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(c.Close)
	return c
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 20 s in vain until %s", what)
		}
	}
}

func checker(t testing.TB, o Options) *Checker {
	t.Helper()
	c, err := NewChecker(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func must(t testing.TB, r rueidis.RedisResult) {
	t.Helper()
	if err := r.Error(); err != nil {
		t.Fatal(err)
	}
}

// bothWays runs a test for the script and for transactions.
func bothWays(t *testing.T, test func(t *testing.T, noScripts bool)) {
	for _, noScripts := range []bool{false, true} {
		t.Run(map[bool]string{false: "script", true: "multi"}[noScripts], func(t *testing.T) { test(t, noScripts) })
	}
}
