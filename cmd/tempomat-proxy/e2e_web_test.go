package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const (
	firstToken  = "0123456789abcdef"
	secondToken = "another-token-0123"
)

// withToken is a header.
func withToken(token string) http.Header {
	return http.Header{"Authorization": {"Bearer " + token}}
}

// TestDashboardOverTCP asks the programs themselves, over TCP with a token: without its file the site goes on, the log says
// what that means, and a reload that finds one lets its bearer in; each reload reads it again, and so does another process
// that takes over.
func TestDashboardOverTCP(t *testing.T) {
	t.Parallel()
	file, port := filepath.Join(tempDir(t), "token"), freePort(t)
	web := "http://127.0.0.1:" + port
	s := startProxyWithAdmin(t, fmt.Sprintf("  web: 127.0.0.1:%s\n  token: %s\n", port, file))
	client := newClient(t)
	status := func(token string) int {
		return fetch(t, client, http.MethodGet, web+"/v1/status", withToken(token), nil).StatusCode
	}
	s.stderr.Await(t, 0, "the dashboard rejects all requests until a reload finds a token")
	if a := fetch(t, client, http.MethodGet, web+"/v1/status", withToken(firstToken), nil); a.StatusCode != 401 || !strings.Contains(a.body, "the log shows") {
		t.Errorf("before there is one: %s %s", a.Status, a.body)
	}
	writeFile(t, file, firstToken+"\n")
	s.signal(syscall.SIGHUP)
	_, read := s.stderr.Await(t, 0, reloaded)
	if a := fetch(t, client, http.MethodGet, web+"/", nil, nil); a.StatusCode != 200 || !strings.Contains(a.body, "<title>tempomat</title>") {
		t.Errorf("the page: %s %s", a.Status, a.body)
	}
	if a := fetch(t, client, http.MethodGet, web+"/v1/status", nil, nil); a.StatusCode != 401 {
		t.Errorf("without a token: %s", a.Status)
	}
	if got := status(firstToken); got != 200 {
		t.Errorf("with the token: %d", got)
	}
	writeFile(t, file, secondToken)
	s.signal(syscall.SIGHUP)
	s.stderr.Await(t, read, reloaded)
	if got := status(secondToken); got != 200 {
		t.Errorf("with the new token: %d", got)
	}
	if got := status(firstToken); got != 401 {
		t.Errorf("with the old token: %d", got)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGHUP)
	s.stderr.Await(t, 0, "the token of the dashboard stays as it was")
	if got := status(secondToken); got != 200 {
		t.Errorf("after a token that everybody can read: %d", got)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	from := s.stderr.Len()
	s.successor()
	s.stderr.Await(t, from, `"msg":"the dashboard is served"`)
	s.exit()
	if got := fetch(t, newClient(t), http.MethodGet, web+"/v1/status", withToken(secondToken), nil).StatusCode; got != 200 {
		t.Errorf("after another process took over: %d", got)
	}
}

// startProxyWithAdmin starts the proxy with further lines of its section admin.
func startProxyWithAdmin(t *testing.T, lines string) *sidecarProcess {
	t.Helper()
	s := unstarted(t)
	writeFile(t, s.file, fmt.Sprintf("backend: http://127.0.0.1:1\nlisten: 127.0.0.1:0\nstate: off\nadmin:\n  listen: \"unix:%s\"\n%s", s.admin, lines))
	s.startAgain()
	s.stderr.Await(t, 0, `"msg":"the dashboard is served"`)
	return s
}

func TestToken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(tempDir(t), "token")
	for _, c := range []struct {
		text string
		mode os.FileMode
		want string // in the error; empty: none
	}{
		{firstToken, 0o600, ""}, {firstToken + "\n", 0o640, ""}, {firstToken + "\r\n", 0o400, ""},
		{firstToken, 0o644, "others may not read it"}, {firstToken, 0o660, "nor its group write it"}, {firstToken, 0o601, "chmod 640"},
		{"", 0o600, "has 0 characters; 16 to 512 are allowed"}, {"short", 0o600, "has 5 characters"},
		{strings.Repeat("x", 600), 0o600, "more than 514 characters"}, {firstToken + "\n\n", 0o600, "visible ASCII"}, {firstToken + " x", 0o600, "visible ASCII"},
		{firstToken + "ü", 0o600, "visible ASCII"},
	} {
		writeFile(t, file, c.text)
		if err := os.Chmod(file, c.mode); err != nil {
			t.Fatal(err)
		}
		token, err := readToken(file)
		switch {
		case c.want == "" && (err != nil || token != firstToken):
			t.Errorf("%q, %#o: %q, %v", c.text, c.mode, token, err)
		case c.want != "" && (err == nil || token != "" || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), firstToken)):
			t.Errorf("%q, %#o: %q, %v; want %q", c.text, c.mode, token, err, c.want)
		}
	}
	if _, err := readToken(filepath.Dir(file)); err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := readToken(file + ".none"); err == nil || !strings.Contains(err.Error(), "admin.token: ") {
		t.Errorf("no file: %v", err)
	}
}
