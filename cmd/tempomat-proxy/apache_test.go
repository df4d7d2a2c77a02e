package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// apache is a private Apache with PHP.
type apache struct {
	*process
	dir, url string
	port     string
}

// startApache starts testdata/apache/start with further arguments, on a port of
// its own.
func startApache(t *testing.T, args ...string) *apache {
	t.Helper()
	return startApacheAt(t, freePort(t), args...)
}

func startApacheAt(t *testing.T, port string, args ...string) *apache {
	t.Helper()
	needApache(t)
	for _, pattern := range []string{"../../testdata/apache/*", "../../testdata/apache/*/*"} { // go test sees so what it is made of
		if _, err := filepath.Glob(pattern); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(tempDir(t), "apache")
	args = append([]string{"--port", port, "--dir", dir}, args...)
	a := &apache{
		process: startProcess(t, nil, "../../testdata/apache/start", args...),
		dir:     dir, port: port, url: "http://127.0.0.1:" + port,
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("Apache's log:\n%s", a.log("error.log"))
		}
	})
	a.listens("127.0.0.1:" + port)
	return a
}

// needApache fails the test where there is none: without it, nothing of this
// package would be tested.
func needApache(t *testing.T) {
	t.Helper()
	for _, name := range []string{"apache2", "/usr/sbin/apache2", "httpd", "/usr/sbin/httpd"} {
		if _, err := exec.LookPath(name); err == nil {
			return
		}
	}
	t.Fatal("these tests need Apache with PHP, which is not here: make deps")
}

// freePort is one of this machine that nobody else has.
func freePort(t *testing.T) string {
	t.Helper()
	return strconv.Itoa(testkit.FreePorts(t, 1))
}

func (a *apache) log(name string) string {
	text, err := os.ReadFile(filepath.Join(a.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		a.t.Fatal(err)
	}
	return string(text)
}

// spent is one line of php.log: what a page cost.
type spent struct {
	at     float64 // Unix time of its end, in seconds
	client string
	cpu    time.Duration
}

// pages reads php.log.
func (a *apache) pages() (all []spent) {
	lines := bufio.NewScanner(strings.NewReader(a.log("php.log")))
	for lines.Scan() {
		var s spent
		var us int64
		if _, err := fmt.Sscan(lines.Text(), &s.at, &s.client, &us); err != nil {
			a.t.Fatalf("php.log: %q: %v", lines.Text(), err)
		}
		s.cpu = time.Duration(us) * time.Microsecond
		all = append(all, s)
	}
	return all
}

// cpu is what a client's pages used between two instants of Unix time.
func (a *apache) cpu(client string, from, to float64) (n int, sum time.Duration) {
	for _, s := range a.pages() {
		if s.client == client && s.at >= from && s.at < to {
			n++
			sum += s.cpu
		}
	}
	return n, sum
}
