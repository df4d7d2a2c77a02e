package main

import (
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestDemo is what make run starts.
func TestDemo(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, listen := range map[string]string{
		"its port": "127.0.0.1:" + freePort(t), "another port": taken.Addr().String(),
	} {
		t.Run(name, func(t *testing.T) {
			tmp := tempDir(t)
			p := startProcess(t, []string{"TEMPOMAT_LISTEN=" + listen, "TMPDIR=" + tmp}, program(t, "tempomat-proxy"), "-demo")
			p.stderr.await(t, 0, `"msg":"serving"`)
			p.stdout.await(t, 0, "Ctrl-C ends it.")
			said := p.stdout.String()
			url := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(said)
			if (url == "http://"+listen) != (name == "its port") || url == "" {
				t.Errorf("it serves %s:\n%s", url, said)
			}
			c := newClient(t)
			for _, path := range []string{"/", "/heavy", "/static", "/page?ms=1"} {
				if a := fetch(t, c, http.MethodGet, url+path, nil, nil); a.StatusCode != http.StatusOK || a.body == "" {
					t.Errorf("%s: %s %q", path, a.Status, a.body)
				}
			}
			for _, path := range []string{"/nothing", "/page?ms=x"} {
				if a := fetch(t, c, http.MethodGet, url+path, nil, nil); a.StatusCode/100 != 4 {
					t.Errorf("%s: %s", path, a.Status)
				}
			}
			askAsPrinted(t, said)
			p.signal(syscall.SIGINT)
			if status := p.exit(); status != 0 {
				t.Errorf("exit status %d\n%s", status, p.stderr)
			}
			if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
}

// askAsPrinted runs the doctor with the arguments that the demo prints.
func askAsPrinted(t *testing.T, said string) {
	t.Helper()
	command := regexp.MustCompile(`tempomat-doctor (--socket \S+)`).FindStringSubmatch(said)
	if command == nil {
		t.Fatalf("no doctor's command in:\n%s", said)
	}
	status, out, errs := execute(t, nil, program(t, "tempomat-doctor"), strings.Fields(command[1])...)
	if status != 0 || !strings.Contains(out, "127.0.0.1") {
		t.Errorf("the doctor: %d %s\n%s", status, errs, out)
	}
}
