package main

import (
	"bytes"
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

// process is a running program.
type process struct {
	t              *testing.T
	proc           *os.Process
	path           string
	stdout, stderr *testkit.Output
	said           chan struct{} // closed when all that write the output have ended
	followed       chan struct{} // closed when another process writes it as well
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
	p := &process{t: t, path: path, stdout: new(testkit.Output), stderr: new(testkit.Output), said: make(chan struct{}), followed: make(chan struct{}), ended: make(chan struct{})}
	c := exec.Command(path, args...)
	c.ExtraFiles, c.Env = files, append(cleanEnv(), env...)
	c.Stdout, c.Stderr = pipe(t, p.stdout, nil), pipe(t, p.stderr, p.said)
	err := c.Start()
	_ = c.Stdout.(*os.File).Close()
	_ = c.Stderr.(*os.File).Close()
	if err != nil {
		t.Fatal(err)
	}
	p.proc = c.Process
	p.awaitEnd()
	return p
}

// pipe is for programs to write to. Said is closed when the last one has ended.
func pipe(t *testing.T, to *testkit.Output, said chan<- struct{}) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.Copy(to, read)
		_ = read.Close()
		to.Close()
		if said != nil {
			close(said)
		}
	}()
	return write
}

// awaitEnd has the end of a process noticed, and that all it said is there unless another one
// goes on writing.
func (p *process) awaitEnd() {
	go func() {
		p.status = -1
		if state, err := p.proc.Wait(); err == nil {
			p.status = state.ExitCode()
		}
		select {
		case <-p.said:
		case <-p.followed:
		}
		close(p.ended)
	}()
	p.t.Cleanup(p.kill)
}

// cleanEnv is the environment without what would configure the programs.
func cleanEnv() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TEMPOMAT_") && !strings.HasPrefix(v, "NOTIFY_SOCKET=") {
			env = append(env, v)
		}
	}
	return append(env, "TEMPOMAT_ROBOTS_REFRESH=off") // no test leaves this machine
}

func (p *process) kill() {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(testkit.Patience):
		_ = p.proc.Kill()
		<-p.ended
		p.t.Errorf("%s had to be killed; its log:\n%s", p.path, p.stderr)
	}
	if out := p.stderr.String(); strings.Contains(out, "panic") {
		p.t.Errorf("%s: a panic:\n%s", p.path, out)
	}
}

// signal does nothing to a process that has ended.
func (p *process) signal(s os.Signal) {
	if err := p.proc.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("%v to %s: %v", s, p.path, err)
	}
}

// exit waits for the end and returns the exit status.
func (p *process) exit() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.status
	case <-time.After(testkit.Patience):
		p.t.Fatalf("%s did not end; its log:\n%s", p.path, p.stderr)
		return -1
	}
}

// exits waits for the end, which is to have a status.
func (p *process) exits(want int) {
	p.t.Helper()
	if status := p.exit(); status != want {
		p.t.Errorf("%s: exit status %d, want %d:\n%s", p.path, status, want, p.stderr)
	}
}

// listens waits until it listens on an address.
func (p *process) listens(address string) {
	p.t.Helper()
	testkit.Eventually(p.t, p.path+" listens", func() bool {
		select {
		case <-p.ended:
			p.t.Fatalf("%s ended with status %d:\n%s%s", p.path, p.status, p.stdout, p.stderr)
		default:
		}
		c, err := net.DialTimeout("tcp", address, time.Second)
		return err == nil && c.Close() == nil
	})
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

// observed has the proxy delay nothing.
const observed = "throttle: {mode: observe}\nstate: off\n"

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
	s := unstarted(t)
	s.configure(t, backend, yaml)
	s.process = startProcess(t, env, command[0], append(command[1:len(command):len(command)], "-config", s.file)...)
	s.serves()
	return s
}

// startAgain starts it once more, with the configuration that is there.
func (s *sidecarProcess) startAgain(env ...string) {
	s.t.Helper()
	s.process = startProcess(s.t, env, program(s.t, "tempomat-proxy"), "-config", s.file)
	s.serves()
}

// unstarted is one that was not started yet.
func unstarted(t *testing.T) *sidecarProcess {
	t.Helper()
	dir := tempDir(t)
	return &sidecarProcess{process: &process{t: t, stderr: new(testkit.Output)}, dir: dir, file: filepath.Join(dir, "tempomat.yaml"), admin: filepath.Join(dir, "admin.sock")}
}

// serves waits until it says where it serves.
func (s *sidecarProcess) serves() {
	s.t.Helper()
	line, _ := s.stderr.Await(s.t, 0, `"msg":"serving"`)
	s.url = "http://" + parseServed(s.t, line).Listen[0]
}

// served is what a process says when it serves.
type served struct {
	PID    int      `json:"pid"`
	Listen []string `json:"listen"`
}

func parseServed(t *testing.T, line string) (s served) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &s); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
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
