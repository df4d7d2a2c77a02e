package main

import (
	"bytes"
	"errors"
	"fmt"
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

// process is a running program.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr *output
	ended          chan struct{} // closed when status stands
	status         int           // of its exit; -1: by a signal
}

// startProcess starts a program, which ends with the test.
func startProcess(t *testing.T, env []string, path string, args ...string) *process {
	t.Helper()
	return startProcessWith(t, nil, env, path, args...)
}

// startProcessWith hands files over to it, from descriptor 3 on.
func startProcessWith(t *testing.T, files []*os.File, env []string, path string, args ...string) *process {
	t.Helper()
	p := &process{
		t: t, cmd: exec.Command(path, args...), stdout: newOutput(), stderr: newOutput(), ended: make(chan struct{}),
	}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = p.stdout, p.stderr, files
	p.cmd.Env = append(cleanEnv(), env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		p.status = p.cmd.ProcessState.ExitCode()
		p.stdout.close()
		p.stderr.close()
		close(p.ended)
	}()
	t.Cleanup(p.kill)
	return p
}

// cleanEnv is the environment without what would configure the programs, and
// without the second that the race detector waits at the end of each.
func cleanEnv() (env []string) {
	env = append(env, "GORACE=atexit_sleep_ms=0")
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TEMPOMAT_") && !strings.HasPrefix(v, "NOTIFY_SOCKET=") {
			env = append(env, v)
		}
	}
	return env
}

func (p *process) kill() {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(testkit.Patience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		p.t.Errorf("%s had to be killed; its log:\n%s", p.cmd.Path, p.stderr)
	}
	if out := p.stderr.String(); strings.Contains(out, "DATA RACE") || strings.Contains(out, "panic") {
		p.t.Errorf("%s: a data race or a panic:\n%s", p.cmd.Path, out)
	}
}

// signal does nothing to a process that has ended.
func (p *process) signal(s os.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("%v to %s: %v", s, p.cmd.Path, err)
	}
}

// exit waits for the end and returns the exit status.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.status
	case <-time.After(testkit.Patience):
		p.t.Fatalf("%s did not end; its log:\n%s", p.cmd.Path, p.stderr)
		return -1
	}
}

// execute runs a program to its end.
func execute(t *testing.T, env []string, path string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	c := exec.Command(path, args...)
	c.Stdout, c.Stderr, c.Env = &out, &errs, append(cleanEnv(), env...)
	var ended *exec.ExitError
	if err := c.Run(); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), out.String(), errs.String()
}

// sidecarProcess is a running tempomat-proxy.
type sidecarProcess struct {
	*process
	dir   string // its directory
	file  string // its configuration
	admin string // its admin socket
	url   string // where it serves
}

// startProxy starts tempomat-proxy before a backend, on a free port, with
// further lines of configuration.
func startProxy(t *testing.T, backend, yaml string) *sidecarProcess {
	t.Helper()
	return startProxyWith(t, nil, nil, backend, yaml)
}

// startProxyWith is startProxy with an environment and words before the command.
func startProxyWith(t *testing.T, env, before []string, backend, yaml string) *sidecarProcess {
	t.Helper()
	return startProxyAs(t, env, append(append([]string(nil), before...), program(t, "tempomat-proxy")), backend, yaml)
}

// startProxyAs is startProxyWith with the program itself, too.
func startProxyAs(t *testing.T, env, command []string, backend, yaml string) *sidecarProcess {
	t.Helper()
	dir := tempDir(t)
	s := &sidecarProcess{dir: dir, file: filepath.Join(dir, "tempomat.yaml"), admin: filepath.Join(dir, "admin.sock")}
	s.configure(t, backend, yaml)
	s.process = startProcess(t, env, command[0], append(command[1:len(command):len(command)], "-config", s.file)...)
	line, _ := s.stderr.await(t, 0, `"msg":"serving"`)
	s.url = "http://" + parseLog(t, line).Listen[0]
	return s
}

// configure replaces the configuration file as a whole. What yaml says of
// listen counts instead of a free port, and of state instead of a file of its own.
func (s *sidecarProcess) configure(t *testing.T, backend, yaml string) {
	t.Helper()
	text := fmt.Sprintf("backend: %q\nadmin: {listen: \"unix:%s\"}\n", backend, s.admin)
	if !strings.Contains("\n"+yaml, "\nlisten: ") { // at the top: other things listen, too
		text += "listen: 127.0.0.1:0\n"
	}
	text += yaml
	if !strings.Contains("\n"+yaml, "\nstate: ") { // the usual file is there for all tests, and the machine's own
		text += fmt.Sprintf("\nstate: %q\n", filepath.Join(s.dir, "state"))
	}
	writeFile(t, s.file, text)
}

// writeFile replaces a file as a whole.
func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// doctor runs tempomat-doctor against the proxy.
func (s *sidecarProcess) doctor(args ...string) (status int, stdout, stderr string) {
	s.t.Helper()
	return execute(s.t, []string{"TEMPOMAT_ADMIN_LISTEN=unix:" + s.admin}, program(s.t, "tempomat-doctor"), args...)
}

// get asks the proxy for a page as a client of that address.
func (s *sidecarProcess) get(client, path string) answer {
	s.t.Helper()
	return fetch(s.t, newClient(s.t), http.MethodGet, s.url+path, from(client), nil)
}
