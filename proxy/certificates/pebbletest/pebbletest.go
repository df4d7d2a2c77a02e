// Package pebbletest runs Pebble, Let's Encrypt's certificate authority for tests.
package pebbletest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
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

	"github.com/miekg/dns"

	"tempomat/internal/testkit"
)

// module is the Go module of Pebble.
const module = "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1"

// Authority is a running Pebble process.
type Authority struct {
	Directory string         // URL of the ACME directory
	Roots     *x509.CertPool // authority that signed the server's own certificate
	RootsFile string         // PEM file with the same certificate as Roots
	Issuers   *x509.CertPool // root of the certificates that Pebble issues
}

// Start starts Pebble. Pebble sends challenges to these ports of this machine, and issues certificates with the
// given validity.
func Start(t *testing.T, httpPort, tlsPort int, validity time.Duration) *Authority {
	t.Helper()
	dir := t.TempDir()
	build(t, dir)
	ca := testkit.NewAuthority(t)
	certificate, key := ca.Issue(t, time.Now().AddDate(0, 0, 1), "127.0.0.1")
	testkit.WriteCertificate(t, certificate, key, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	listen, manage := testkit.FreeAddress(t), testkit.FreeAddress(t)
	configure(t, dir, map[string]any{
		"listenAddress": listen, "managementListenAddress": manage,
		"certificate": filepath.Join(dir, "cert.pem"), "privateKey": filepath.Join(dir, "key.pem"),
		"httpPort": httpPort, "tlsPort": tlsPort, "retryAfter": map[string]int{"authz": 1, "order": 1},
		"profiles": map[string]any{"default": map[string]any{"validityPeriod": int(validity.Seconds())}},
	})
	run(t, dir)
	a := &Authority{
		Directory: "https://" + listen + "/dir", Roots: ca.Pool, RootsFile: filepath.Join(dir, "roots.pem"), Issuers: x509.NewCertPool(),
	}
	testkit.Must(t, os.WriteFile(a.RootsFile, ca.PEM(), 0o600))
	a.Issuers.AppendCertsFromPEM(awaitRoot(t, "https://"+manage+"/roots/0", ca.Pool))
	return a
}

// Renews reports whether Pebble can renew a certificate that it issued. Pebble looks up the serial number in
// its DER form, which begins with a zero byte if the first bit is set, but stores it without this byte. Pebble
// therefore doesn't find one in 256 of its certificates, and the library tries again after a minute.
func Renews(issued *x509.Certificate) bool { return issued.SerialNumber.BitLen()%8 != 0 }

// build compiles Pebble into a directory.
func build(t *testing.T, dir string) {
	t.Helper()
	c := exec.Command("go", "install", module)
	c.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=-mod=mod")
	if out, err := c.CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v: %s", err, out)
		}
		t.Skipf("can't get Pebble from the module proxy: %v: %s", err, out)
	}
}

// configure writes Pebble's configuration into a directory.
func configure(t *testing.T, dir string, settings map[string]any) {
	t.Helper()
	config, err := json.Marshal(map[string]any{"pebble": settings})
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600))
}

// run runs Pebble until the test ends.
func run(t *testing.T, dir string) {
	t.Helper()
	c := exec.Command(filepath.Join(dir, "pebble"), //nolint:gosec // the program was built there
		"-config", filepath.Join(dir, "config.json"), "-dnsserver", startDNS(t))
	c.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0")
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // stops Pebble even if the test panics
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	testkit.Must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("Pebble:\n%s", out.String())
		}
	})
}

// awaitRoot waits until Pebble answers, and returns its root certificate as PEM.
func awaitRoot(t *testing.T, url string, trusted *x509.CertPool) (root []byte) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: trusted}}}
	testkit.Eventually(t, "Pebble answers", func() bool {
		res, err := client.Get(url)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		root, err = io.ReadAll(res.Body)
		return err == nil && res.StatusCode == http.StatusOK
	})
	return root
}

// startDNS starts a DNS server that resolves every name to 127.0.0.1. Pebble queries it over TCP.
func startDNS(t *testing.T) string {
	t.Helper()
	l := testkit.Listen(t)
	s := &dns.Server{Listener: l, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		if q.Question[0].Qtype == dns.TypeA {
			m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(127, 0, 0, 1)}}
		}
		_ = w.WriteMsg(m)
	})}
	served := make(chan error, 1)
	go func() { served <- s.ActivateAndServe() }()
	t.Cleanup(func() {
		_ = s.Shutdown() // ActivateAndServe below reports errors
		testkit.Must(t, <-served)
	})
	return l.Addr().String()
}
