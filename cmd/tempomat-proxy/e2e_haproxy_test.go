//go:build world

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// haproxyHead is what a configuration begins with.
const haproxyHead = "global\n    log stdout format raw local0\ndefaults\n    timeout connect 5s\n    timeout client 1m\n    timeout server 1m\n"

// haproxy starts one.
func haproxy(t *testing.T, config string) {
	t.Helper()
	file := filepath.Join(tempDir(t), "haproxy.cfg")
	writeFile(t, file, haproxyHead+config)
	startProcess(t, nil, testkit.Program(t, "haproxy"), "-db", "-f", file)
}

// TestWorldHAProxy has clients come through a real HAProxy, with all that it can say of them, and
// its health checks.
func TestWorldHAProxy(t *testing.T) {
	t.Parallel()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("X-Forwarded-For"), " ", r.Header.Get("X-Forwarded-Proto"))
	}))
	t.Cleanup(backend.Close)
	plain, secure := testkit.FreeAddress(t), testkit.FreeAddress(t)
	s := startSecure(t, backend.URL, fmt.Sprintf("listen: [{address: %q, proxyProtocol: true}, {address: %q, tls: true, proxyProtocol: true}]\ntrustedProxies: 127.0.0.1\ntls: {certificates: %%s}\n", plain, secure))
	pem := filepath.Join(tempDir(t), "haproxy.pem") // HAProxy wants both in a file
	certificate, key := s.ca.Issue(t, time.Now().AddDate(0, 0, 1), "site.example")
	writeFile(t, pem, string(certificate)+string(key))
	type way struct{ name, bind, server, url, want string }
	ways := []way{
		{"version 1", "", plain + " send-proxy", "http://", "127.0.0.9 http"},
		{"version 2", "", plain + " send-proxy-v2", "http://", "127.0.0.9 http"},
		{"version 2, TLS told", "ssl crt " + pem, plain + " send-proxy-v2-ssl", "https://", "127.0.0.9 https"},
		{"version 2 before TLS", "", secure + " send-proxy-v2", "https://", "127.0.0.9 https"},
		{"version 1 before TLS", "", secure + " send-proxy", "https://", "127.0.0.9 https"},
	}
	var config strings.Builder
	at := make([]string, len(ways))
	for i, w := range ways {
		at[i] = testkit.FreeAddress(t)
		fmt.Fprintf(&config, "listen way%d\n    mode tcp\n    bind %s %s\n    server s %s check inter 200ms\n", i, at[i], w.bind, w.server)
	}
	haproxy(t, config.String())
	for i, w := range ways {
		ask := func() (out string) {
			_, port, _ := strings.Cut(at[i], ":")
			_, out, _ = execute(t, nil, "curl", "-sS", "--noproxy", "*", "--interface", "127.0.0.9", "--cacert", s.caFile,
				"--connect-to", "site.example:"+port+":"+at[i], "-H", "X-Forwarded-For: 198.51.100.1", w.url+"site.example:"+port+"/")
			return out
		}
		testkit.Eventually(t, w.name+" is up", func() bool { return ask() != "" })
		if got := ask(); got != w.want {
			t.Errorf("%s: the backend hears %q, want %q", w.name, got, w.want)
		}
	}
	if s.stderr.count(0, "begin with the PROXY protocol") > 0 {
		t.Errorf("health checks are none:\n%s", s.stderr)
	}
	if status, _, errs := execute(t, nil, "curl", "-sS", "--noproxy", "*", "http://"+plain+"/"); status == 0 {
		t.Errorf("without a header there is an answer: %s", errs)
	}
	s.stderr.await(t, 0, "does not begin with the PROXY protocol")
	if got, ok := s.account("slash32", "127.0.0.9"); !ok {
		t.Errorf("the client is not known: %v", got)
	}
}

// TestWorldProxyProtocolOfStrangers: nobody else may say who a client is.
func TestWorldProxyProtocolOfStrangers(t *testing.T) {
	t.Parallel()
	backend, _, _ := pageBackend(t)
	s := startProxy(t, backend, "listen: {address: 127.0.0.1:0, proxyProtocol: true}\ntrustedProxies: 192.0.2.1\n")
	if status, _, _ := execute(t, nil, "curl", "-sS", "--noproxy", "*", "--haproxy-protocol", s.url+"/"); status == 0 {
		t.Error("a stranger is served")
	}
	s.stderr.await(t, 0, "none of trustedProxies")
}
