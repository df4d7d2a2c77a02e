package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"tempomat/config"
	"tempomat/internal/testkit"
)

// secureSite is a sidecar that serves with TLS, and its certificates.
type secureSite struct {
	*sidecarProcess
	ca     *testkit.Authority
	caFile string
	site   string // host:port that serves TLS
}

// issue writes a certificate for names; the first name identifies it.
func (s *secureSite) issue(file string, names ...string) {
	s.t.Helper()
	certificate, key := s.ca.Issue(s.t, time.Now().AddDate(0, 3, 0), names...)
	testkit.ReplaceFile(s.t, filepath.Join(s.dir, file+".key"), string(key))
	testkit.ReplaceFile(s.t, filepath.Join(s.dir, file+".crt"), string(certificate))
}

// startSecure starts a sidecar with TLS in front of a backend. In yaml, %s stands for the directory of certificates,
// which contains one for site.example.
func startSecure(t *testing.T, backend, yaml string) *secureSite {
	t.Helper()
	dir := tempDir(t)
	s := &secureSite{sidecarProcess: &sidecarProcess{t: t, dir: dir}, ca: testkit.NewAuthority(t), caFile: filepath.Join(dir, "ca.pem")}
	testkit.ReplaceFile(t, s.caFile, string(s.ca.PEM()))
	certificates := filepath.Join(dir, "certificates")
	testkit.Must(t, os.Mkdir(certificates, 0o700))
	s.dir = certificates
	s.issue("site", "site.example", "*.site.example", "127.0.0.1")
	s.sidecarProcess = startProxy(t, backend, fmt.Sprintf(yaml, certificates))
	s.dir = certificates
	s.site = strings.TrimPrefix(s.url, "http://")
	return s
}

const overTLS = "listen: {address: 127.0.0.1:0, tls: true}\ntls: {certificates: %s}\n"

// trusting returns the configuration of a client that trusts the site's authority.
func (s *secureSite) trusting() *tls.Config {
	return &tls.Config{RootCAs: s.ca.Pool, ServerName: "site.example"}
}

// shown returns the first name of the certificate that a new client gets.
func (s *secureSite) shown(name string) string {
	s.t.Helper()
	c, err := tls.Dial("tcp", s.site, &tls.Config{RootCAs: s.ca.Pool, ServerName: name, InsecureSkipVerify: true})
	testkit.Must(s.t, err)
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// TestCertificatesExchangedUnderLoad: no request fails while certificates change at SIGHUP, even in parts, and processes
// change at SIGUSR2.
func TestCertificatesExchangedUnderLoad(t *testing.T) {
	t.Parallel()
	backend := pageBackend(t)
	s := startSecure(t, backend, overTLS+"log: {access: off}\n")
	underLoad(t, s.trusting(), "https://"+s.site+"/", 8, func(i int) {
		if i%4 == 3 {
			s.configure(t, backend, fmt.Sprintf("listen: {address: %q, tls: true}\ntls: {certificates: %s}\nlog: {access: off}\n", s.site, s.dir))
			before := s.process
			s.sidecarProcess = s.successor()
			before.Exits(0)
			return
		}
		if i%4 == 0 { // first half of the file, then all of it
			from := s.Stderr.Len()
			testkit.ReplaceFile(t, filepath.Join(s.dir, "site.crt"), "-----BEGIN CERTIFICATE-----\nMIIB")
			s.reload(reloaded)
			s.Stderr.Await(t, from, "the previous one stays in use")
		}
		name := fmt.Sprintf("version%d.example", i)
		s.issue("site", name, "site.example")
		s.reload(reloaded)
		testkit.Same(t, name, s.shown("site.example"), "shown")
	})
	if _, out, _ := s.doctor("status"); !regexp.MustCompile(`certificate .*site\.crt +valid to \d{4}-\d\d-\d\d`).MatchString(out) {
		t.Errorf("the status has no certificate:\n%s", out)
	}
}

// TestHandedOverTLS: a socket from systemd is served according to its entry in listen.
func TestHandedOverTLS(t *testing.T) {
	t.Parallel()
	l, socket := supervised(t, "tcp", "127.0.0.1:0")
	s, ca := unstarted(t), testkit.NewAuthority(t)
	certificate, key := ca.Issue(t, time.Now().AddDate(0, 3, 0), "site.example")
	testkit.WriteCertificate(t, certificate, key, filepath.Join(s.dir, "a.crt"), filepath.Join(s.dir, "a.key"))
	s.configure(t, pageBackend(t), fmt.Sprintf("state: off\nlisten: [192.0.2.1:1, \"%s tls\"]\ntls: {certificates: %s}\n", l.Addr(), s.dir))
	s.handOver([]*os.File{socket}, nil)
	s.serves()
	c := newClientOf(t, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool, ServerName: "site.example"}})
	testkit.Same(t, "page", fetch(t, c, http.MethodGet, "https://"+l.Addr().String()+"/", nil, nil).body, "it serves")
}

// TestTicketsOfAFleet: a client can resume, at one sidecar, a TLS session that began at another if the two share a
// secret.
func TestTicketsOfAFleet(t *testing.T) {
	t.Parallel()
	backend := pageBackend(t)
	yaml := fmt.Sprintf("coordination: {secret: %q}\n", newSecret(t))
	for _, c := range []struct {
		first, second string
		want          bool
	}{{yaml, yaml, true}, {"", "", false}} {
		first := startSecure(t, backend, overTLS+c.first)
		second := startProxy(t, backend, fmt.Sprintf(overTLS, first.dir)+c.second) // with the same certificate
		config := first.trusting()
		config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		resumed := func(at string) bool {
			conn, err := tls.Dial("tcp", at, config)
			testkit.Must(t, err)
			defer conn.Close()
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn) // tickets follow the handshake
			return conn.ConnectionState().DidResume
		}
		if resumed(first.site) {
			t.Fatal("the first session is resumed")
		}
		testkit.Same(t, c.want, resumed(strings.TrimPrefix(second.url, "http://")), "with %q it is resumed at the other", c.first)
	}
}

// TestReloadOfTLS: if a change of TLS needs a restart, the certificates don't change until then. A reload whose
// certificates can't be used is rejected as a whole.
func TestReloadOfTLS(t *testing.T) {
	t.Parallel()
	backend := pageBackend(t)
	s := startSecure(t, backend, overTLS)
	c := newClientOf(t, &http.Transport{DisableKeepAlives: true, TLSClientConfig: s.trusting()})
	serves := func(when string) {
		t.Helper()
		testkit.Same(t, "page", fetch(t, c, http.MethodGet, "https://"+s.site+"/", nil, nil).body, "%s: it serves", when)
	}
	for _, yaml := range []string{"listen: {address: 127.0.0.1:0, tls: true}\ntls: {acme: {hosts: [site.example]}}\n", "listen: 127.0.0.1:0\n"} {
		from := s.Stderr.Len()
		s.configure(t, backend, yaml)
		s.reload(reloaded)
		s.Stderr.Await(t, from, `only after a restart","key":"tls.certificates"`)
		serves(yaml)
	}
	from := s.Stderr.Len()
	s.configure(t, "http://127.0.0.1:1", fmt.Sprintf(overTLS, "/nowhere"))
	s.reload(rejected)
	s.Stderr.Await(t, from, rejected, "no certificate can be used", "/nowhere")
	serves("with certificates that aren't there")
	s.dir = tempDir(t)
	s.issue("other", "other.example", "site.example")
	s.configure(t, backend, fmt.Sprintf(overTLS, s.dir)+"errorPages: {directory: /nowhere}\n")
	s.reload(rejected)
	testkit.Same(t, "site.example", s.shown("site.example"), "shown after another error")
}

// TestFilesBesideACME: with ACME, files that can't be used are logged at the start, even if none can be used. A reload
// from valid files to such files fails, even if the change needs a restart.
func TestFilesBesideACME(t *testing.T) {
	core, logs := observer.New(zap.ErrorLevel)
	s := secureSite{sidecarProcess: &sidecarProcess{t: t, dir: t.TempDir()}, ca: testkit.NewAuthority(t)}
	s.issue("a", "other.example")
	e, c := newEncryption(zap.New(core)), &config.Config{TLS: config.TLS{ACME: config.ACME{Hosts: []string{"site.example"}}}}
	e.begun = c
	bad, good := config.CertificateFiles{Path: t.TempDir()}, config.CertificateFiles{Path: s.dir}
	for i, files := range [][]config.CertificateFiles{{bad}, {good, bad}, {bad}} {
		c.TLS.Certificates = files
		err := e.load(c)
		e.store.Look()
		if logged := len(logs.TakeAll()); (err != nil) != (i == 2) || (logged == 1) != (i < 2) {
			t.Errorf("%v: %v, logged %d times", files, err, logged)
		}
	}
	testkit.Same(t, 1, len(e.states()), "certificates in use")
	if e.load(&config.Config{TLS: config.TLS{Certificates: []config.CertificateFiles{bad}}}) == nil {
		t.Error("a reload to bad files that wait for a restart doesn't fail")
	}
}
