package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

type process = testkit.Process

// sidecarProcess is a running tempomat-proxy.
type sidecarProcess struct {
	*process
	t     *testing.T
	dir   string // its directory
	file  string // its configuration
	admin string // its admin socket
	url   string // where it serves
}

// observed makes the proxy delay nothing.
const observed = "throttle: {mode: observe}\nstate: off\n"

// startProxy starts tempomat-proxy in front of a backend, on a free port, with further lines of
// configuration.
func startProxy(t *testing.T, backend, yaml string) *sidecarProcess {
	t.Helper()
	return startProxyWith(t, nil, nil, backend, yaml)
}

// startProxyWith is like startProxy, with an environment and words before the command.
func startProxyWith(t *testing.T, env, before []string, backend, yaml string) *sidecarProcess {
	t.Helper()
	return startProxyAs(t, env, append(append([]string(nil), before...), program(t, "tempomat-proxy")), backend, yaml)
}

// startProxyAs is like startProxyWith, with a different program.
func startProxyAs(t *testing.T, env, command []string, backend, yaml string) *sidecarProcess {
	t.Helper()
	s := unstarted(t)
	s.configure(t, backend, yaml)
	s.process = testkit.Start(t, env, command[0], append(command[1:len(command):len(command)], "-config", s.file)...)
	s.serves()
	return s
}

// startAgain starts the proxy again with the current configuration file.
func (s *sidecarProcess) startAgain(env ...string) {
	s.t.Helper()
	s.process = testkit.Start(s.t, env, program(s.t, "tempomat-proxy"), "-config", s.file)
	s.serves()
}

// unstarted returns a proxy that hasn't been started yet.
func unstarted(t *testing.T) *sidecarProcess {
	t.Helper()
	dir := tempDir(t)
	return &sidecarProcess{process: &process{Stderr: new(testkit.Output)}, t: t, dir: dir, file: filepath.Join(dir, "tempomat.yaml"), admin: filepath.Join(dir, "admin.sock")}
}

// serves waits until the proxy logs the addresses that it serves.
func (s *sidecarProcess) serves() {
	s.t.Helper()
	line, _ := s.Stderr.Await(s.t, 0, `"msg":"serving"`)
	s.url = "http://" + parseServed(s.t, line).Listen[0]
}

// served is the log line of a process that serves.
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

// configure replaces the whole configuration file. If yaml sets listen or state, its value replaces the free port or
// the state file.
func (s *sidecarProcess) configure(t *testing.T, backend, yaml string) {
	t.Helper()
	text := fmt.Sprintf("backend: %q\nadmin: {listen: \"unix:%s\"}\n", backend, s.admin)
	if !strings.Contains("\n"+yaml, "\nlisten: ") { // at the top level, because other sections also have a key listen
		text += "listen: 127.0.0.1:0\n"
	}
	text += yaml
	if !strings.Contains("\n"+yaml, "\nstate: ") { // all tests and the machine itself share the usual file
		text += fmt.Sprintf("\nstate: %q\n", filepath.Join(s.dir, "state"))
	}
	testkit.ReplaceFile(t, s.file, text)
}

// doctor runs tempomat-doctor for the proxy.
func (s *sidecarProcess) doctor(args ...string) (status int, stdout, stderr string) {
	s.t.Helper()
	return testkit.Execute(s.t, []string{"TEMPOMAT_ADMIN_LISTEN=unix:" + s.admin}, program(s.t, "tempomat-doctor"), args...)
}

// get requests a page as a client with that address.
func (s *sidecarProcess) get(client, path string) answer {
	s.t.Helper()
	return fetch(s.t, newClient(s.t), http.MethodGet, s.url+path, from(client), nil)
}
