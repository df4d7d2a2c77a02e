package main

import (
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
	t        *testing.T
	dir, url string
	port     string
}

// startApache starts testdata/apache/start with further arguments, on its own port.
func startApache(t *testing.T, args ...string) *apache {
	t.Helper()
	needApache(t)
	for _, pattern := range []string{"../../testdata/apache/*", "../../testdata/apache/*/*"} { // shows go test on which files the result depends
		if _, err := filepath.Glob(pattern); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(tempDir(t), "apache")
	port := freePort(t)
	args = append([]string{"--port", port, "--dir", dir}, args...)
	a := &apache{
		t:       t,
		process: testkit.Start(t, nil, "../../testdata/apache/start", args...),
		dir:     dir, port: port, url: "http://127.0.0.1:" + port,
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("Apache's log:\n%s", a.log("error.log"))
		}
	})
	a.Listens("127.0.0.1:" + port)
	return a
}

// needApache fails the test if there is no Apache, because hardly anything in this package would be tested then.
func needApache(t *testing.T) {
	t.Helper()
	for _, name := range []string{"apache2", "/usr/sbin/apache2", "httpd", "/usr/sbin/httpd"} {
		if _, err := exec.LookPath(name); err == nil {
			return
		}
	}
	t.Fatal("these tests need Apache with PHP, which is not here: make deps")
}

// freePort returns a port on this machine that no program uses.
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

// cpu returns the CPU time of a client's pages, according to php.log.
func (a *apache) cpu(client string) (sum time.Duration) {
	a.t.Helper()
	for line := range strings.Lines(a.log("php.log")) {
		var ended float64
		var of string
		var us int64
		if _, err := fmt.Sscan(line, &ended, &of, &us); err != nil {
			a.t.Fatalf("php.log: %q: %v", line, err)
		}
		if of == client {
			sum += time.Duration(us) * time.Microsecond
		}
	}
	return sum
}
