package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// process is a running tempomat-master.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr testkit.Output
	ended          chan struct{} // closed when status stands
	status         int           // of its exit; -1: by a signal
}

// start starts tempomat-master, which ends with the test.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.Env = append(os.Environ(), asMaster, "NOTIFY_SOCKET=", "GORACE=atexit_sleep_ms=0")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		p.stderr.Close()
		p.status = p.cmd.ProcessState.ExitCode()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGTERM)
		p.exit()
		if log := p.stderr.String(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic") {
			t.Errorf("a data race or a panic:\n%s", log)
		}
	})
	return p
}

// signal does nothing to a process that has ended.
func (p *process) signal(s os.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("%v: %v", s, err)
	}
}

// exit waits for the end and returns the exit status.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(testkit.Patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		p.t.Errorf("it had to be killed; its log:\n%s", &p.stderr)
	}
	return p.status
}

// await waits for a line of the log, after so many bytes of it, that has all parts. It returns where the line ends.
func (p *process) await(from int, parts ...string) (to int) {
	p.t.Helper()
	_, to = p.stderr.Await(p.t, from, parts...)
	return to
}

func hasAll(line string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(line, part) {
			return false
		}
	}
	return true
}

// masterProcess is a tempomat-master that serves.
type masterProcess struct {
	*process
	file  string // its configuration
	admin string // its admin socket
}

// startMaster starts one with that configuration and an admin socket.
func startMaster(t *testing.T, yaml string) *masterProcess {
	t.Helper()
	dir := shortDir(t)
	m := &masterProcess{file: filepath.Join(dir, "master.yaml"), admin: filepath.Join(dir, "admin.sock")}
	m.configure(t, yaml)
	m.restart(t)
	return m
}

// restart starts it again, with the same configuration.
func (m *masterProcess) restart(t *testing.T) {
	t.Helper()
	m.process = start(t, "-config", m.file)
	m.await(0, `"msg":"serving"`)
}

// configure replaces the configuration as a whole.
func (m *masterProcess) configure(t *testing.T, yaml string) {
	t.Helper()
	text := fmt.Sprintf("admin: {listen: \"unix:%s\"}\n", m.admin) + yaml
	if err := os.WriteFile(m.file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(m.file+".new", m.file); err != nil {
		t.Fatal(err)
	}
}

// ask asks the admin API, and decodes what it answers.
func (m *masterProcess) ask(method, path string, reply any) (status int) {
	m.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", m.admin)
	}}
	status, text := fetch(m.t, &http.Client{Transport: transport, Timeout: testkit.Patience}, method, "http://master"+path)
	if err := json.Unmarshal([]byte(text), reply); err != nil {
		m.t.Fatalf("%s: %v: %s", path, err, text)
	}
	return status
}

func fetch(t *testing.T, c *http.Client, method, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// shortDir makes a directory whose path is short enough for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "master-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
