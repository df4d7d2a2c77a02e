//go:build world

package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/proxy/certificates/pebbletest"
)

// TestWorldACME: the program obtains a certificate and serves it. After a restart without an authority, it serves the
// certificate again at once.
func TestWorldACME(t *testing.T) {
	t.Parallel()
	backend := pageBackend(t)
	plain, secure := testkit.FreeAddress(t), testkit.FreeAddress(t)
	port := func(address string) int {
		_, p, _ := net.SplitHostPort(address)
		n, _ := strconv.Atoi(p)
		return n
	}
	p := pebbletest.Start(t, port(plain), port(secure), 24*time.Hour)
	state := tempDir(t)
	yaml := fmt.Sprintf("listen: [%q, %q]\nstate: %s\ntls: {acme: {hosts: [site.example], directory: %q}}\n",
		plain+" redirect", secure+" tls", filepath.Join(state, "state"), p.Directory)
	env := []string{"SSL_CERT_FILE=" + p.RootsFile}
	c := newClientOf(t, &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: p.Issuers, ServerName: "site.example"}})
	serves := func() bool {
		res, err := c.Get("https://" + secure + "/")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	}
	s := startProxyWith(t, env, nil, backend, yaml)
	testkit.Eventually(t, "it serves the certificate", serves)
	if a := fetch(t, newClient(t), http.MethodGet, "http://"+plain+"/a", http.Header{"Host": {"site.example"}}, nil); a.StatusCode != 301 || a.Header.Get("Location") != "https://site.example/a" {
		t.Errorf("%s to %s", a.Status, a.Header.Get("Location"))
	}
	s.Kill()
	info, err := os.Stat(filepath.Join(state, "acme"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info, err)
	}
	s = startProxyWith(t, env, nil, backend, strings.Replace(yaml, p.Directory, "https://"+testkit.FreeAddress(t)+"/dir", 1))
	if serves() {
		t.Error("a certificate of another authority is served")
	}
	s.Kill()
	startProxyWith(t, env, nil, backend, yaml)
	if !serves() {
		t.Error("the certificate is not served at once")
	}
}
