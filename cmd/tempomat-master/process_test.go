package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"tempomat/internal/testkit"
)

// start starts tempomat-master, which ends with the test.
func start(t *testing.T, args ...string) *testkit.Process {
	t.Helper()
	return testkit.Start(t, []string{asMaster, "GORACE=atexit_sleep_ms=0"}, os.Args[0], args...)
}

// masterProcess is a running tempomat-master.
type masterProcess struct {
	*testkit.Process
	t     *testing.T
	file  string // its configuration
	admin string // its admin socket
}

// startMaster starts a tempomat-master with the given configuration and an admin socket.
func startMaster(t *testing.T, yaml string) *masterProcess {
	t.Helper()
	dir := testkit.ShortDir(t)
	m := &masterProcess{t: t, file: filepath.Join(dir, "master.yaml"), admin: filepath.Join(dir, "admin.sock")}
	m.configure(yaml)
	m.restart()
	return m
}

// restart starts the master again with the same configuration.
func (m *masterProcess) restart() {
	m.t.Helper()
	m.Process = start(m.t, "-config", m.file)
	m.await(0, `"msg":"serving"`)
}

// configure replaces the whole configuration.
func (m *masterProcess) configure(yaml string) {
	m.t.Helper()
	testkit.ReplaceFile(m.t, m.file, fmt.Sprintf("admin: {listen: \"unix:%s\"}\n", m.admin)+yaml)
}

// await waits for a log line, after the first from bytes, that contains all parts. It returns the end of the line.
func (m *masterProcess) await(from int, parts ...string) (to int) {
	m.t.Helper()
	_, to = m.Stderr.Await(m.t, from, parts...)
	return to
}

// ask sends a request to the admin API, and decodes the answer.
func (m *masterProcess) ask(method, path string, reply any) (status int) {
	m.t.Helper()
	status, text := m.fetch(method, "http://master"+path, func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", m.admin)
	})
	if err := json.Unmarshal(text, reply); err != nil {
		m.t.Fatalf("%s: %v: %s", path, err, text)
	}
	return status
}

// fetch sends a request over a connection that dial makes, or, if dial is nil, to the address in the URL.
func (m *masterProcess) fetch(method, url string, dial func(ctx context.Context, network, address string) (net.Conn, error)) (status int, body []byte) {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), method, url, nil)
	testkit.Must(m.t, err)
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}, Timeout: testkit.Patience}
	res, err := c.Do(req)
	testkit.Must(m.t, err)
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	testkit.Must(m.t, err)
	return res.StatusCode, body
}

// asMaster in the environment makes the test program run as tempomat-master, with the race detector if the tests use
// it.
const asMaster = "TEMPOMAT_TEST=master"

func TestMain(m *testing.M) {
	if slices.Contains(os.Environ(), asMaster) {
		main() // which exits
	}
	goleak.VerifyTestMain(m)
}
