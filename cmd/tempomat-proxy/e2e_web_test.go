package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

const (
	firstToken  = "0123456789abcdef"
	secondToken = "another-token-0123"
)

// withToken returns headers with a token.
func withToken(token string) http.Header {
	return http.Header{"Authorization": {"Bearer " + token}}
}

// TestDashboardOverTCP runs the programs over TCP with a token. Without the token's file, the site is served, and the
// log explains the consequence. A reload that finds a token grants access. Each reload reads the token again, and so
// does a process that takes over.
func TestDashboardOverTCP(t *testing.T) {
	t.Parallel()
	file, port := filepath.Join(tempDir(t), "token"), freePort(t)
	web := "http://127.0.0.1:" + port
	s := startProxyWithAdmin(t, fmt.Sprintf("  web: 127.0.0.1:%s\n  token: %s\n", port, file))
	client := newClient(t)
	is := func(want int, when, token string) {
		t.Helper()
		testkit.Same(t, want, fetch(t, client, http.MethodGet, web+"/v1/status", withToken(token), nil).StatusCode, "%s: status", when)
	}
	s.Stderr.Await(t, 0, "the dashboard rejects all requests until a reload finds a token")
	if a := fetch(t, client, http.MethodGet, web+"/v1/status", withToken(firstToken), nil); a.StatusCode != 401 || !strings.Contains(a.body, "the log shows") {
		t.Errorf("before there is one: %s %s", a.Status, a.body)
	}
	testkit.ReplaceFile(t, file, firstToken+"\n")
	s.reload(reloaded)
	is(200, "with the token", firstToken)
	testkit.ReplaceFile(t, file, secondToken)
	s.reload(reloaded)
	is(200, "with the new token", secondToken)
	is(401, "with the old token", firstToken)
	testkit.Must(t, os.Chmod(file, 0o644))
	s.reload("the dashboard keeps its previous token")
	is(200, "after a token that everybody can read", secondToken)
	testkit.Must(t, os.Chmod(file, 0o600))
	from := s.Stderr.Len()
	s.successor()
	s.Stderr.Await(t, from, `"msg":"serving the dashboard"`)
	s.Exit()
	client = newClient(t)
	is(200, "after another process took over", secondToken)
}

// startProxyWithAdmin starts the proxy with further lines in the section admin.
func startProxyWithAdmin(t *testing.T, lines string) *sidecarProcess {
	t.Helper()
	s := unstarted(t)
	testkit.ReplaceFile(t, s.file, fmt.Sprintf("backend: http://127.0.0.1:1\nlisten: 127.0.0.1:0\nstate: off\nadmin:\n  listen: \"unix:%s\"\n%s", s.admin, lines))
	s.startAgain()
	s.Stderr.Await(t, 0, `"msg":"serving the dashboard"`)
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
		{firstToken, 0o644, "only its owner and group may have read access"}, {firstToken, 0o660, "only its owner may have write access"}, {firstToken, 0o601, "chmod 640"},
		{"", 0o600, "has 0 characters; 16 to 512 are allowed"}, {"short", 0o600, "has 5 characters"},
		{strings.Repeat("x", 600), 0o600, "more than 514 bytes"}, {firstToken + "\n\n", 0o600, "visible ASCII"}, {firstToken + " x", 0o600, "visible ASCII"},
		{firstToken + "ü", 0o600, "visible ASCII"},
	} {
		testkit.ReplaceFile(t, file, c.text)
		testkit.Must(t, os.Chmod(file, c.mode))
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
