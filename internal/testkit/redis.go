package testkit

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Redis is a redis-server for one test, on a free port, with an empty directory.
type Redis struct {
	Address string

	t       testing.TB
	args    []string
	dir     string
	process *exec.Cmd
}

// StartRedis starts a server that runs until the test ends. The arguments are settings as in the server's
// configuration file.
func StartRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	r := &Redis{Address: FreeAddress(t), t: t, args: args, dir: t.TempDir()}
	r.Start()
	t.Cleanup(r.Kill)
	return r
}

// RedisCommand makes a command that runs the server. Debian's package redis-tools contains the program under a
// different name. Tests don't need the package redis-server, which would start a server.
func RedisCommand(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	path := Program(t, "redis-server", "redis-check-rdb")
	c := exec.Command(path, args...) //nolint:gosec,noctx // a test's own server, ended by its Cleanup
	c.Args[0] = "redis-server"
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

// Start starts the server, or restarts it after Kill. The server is then empty, because it keeps no data on
// disk.
func (r *Redis) Start() {
	r.t.Helper()
	_, port, _ := net.SplitHostPort(r.Address)
	r.process = RedisCommand(r.t, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", r.dir, "--save", "", "--appendonly", "no",
		"--daemonize", "no", "--loglevel", "warning", "--logfile", filepath.Join(r.dir, "log"),
	}, r.args...)...)
	Must(r.t, r.process.Start())
	Eventually(r.t, "redis-server listens", func() bool {
		c, err := net.DialTimeout("tcp", r.Address, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// Kill ends the server immediately.
func (r *Redis) Kill() {
	if r.process != nil {
		_ = r.process.Process.Signal(syscall.SIGCONT)
		_ = r.process.Process.Kill()
		_ = r.process.Wait()
		r.process = nil
	}
}

// Ask sends a command and returns the first line of the answer, such as ":1".
func (r *Redis) Ask(command string) string {
	r.t.Helper()
	c, err := net.DialTimeout("tcp", r.Address, Patience)
	Must(r.t, err)
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(Patience))
	_, err = fmt.Fprintf(c, "%s\r\n", command)
	Must(r.t, err)
	line, err := bufio.NewReader(c).ReadString('\n')
	Must(r.t, err)
	return strings.TrimSpace(line)
}

// Pause stops the server's process. Connections stay open, but the server doesn't answer.
func (r *Redis) Pause() { r.signal(syscall.SIGSTOP) }

// Resume continues the server's process.
func (r *Redis) Resume() { r.signal(syscall.SIGCONT) }

func (r *Redis) signal(s syscall.Signal) {
	r.t.Helper()
	Must(r.t, r.process.Process.Signal(s))
}
