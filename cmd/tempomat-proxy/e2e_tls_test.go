package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// secureSite is a sidecar that serves with TLS, and what it shows.
type secureSite struct {
	*sidecarProcess
	ca     *testkit.Authority
	caFile string
	site   string // host:port where TLS is
}

// issue writes a certificate for names, whose first tells one from another.
func (s *secureSite) issue(file string, names ...string) {
	s.t.Helper()
	certificate, key := s.ca.Issue(s.t, time.Now().AddDate(0, 3, 0), names...)
	writeFile(s.t, filepath.Join(s.dir, file+".key"), string(key))
	writeFile(s.t, filepath.Join(s.dir, file+".crt"), string(certificate))
}

// startSecure starts a sidecar with TLS before a backend. yaml may say %s for its directory of
// certificates, which has one for site.example.
func startSecure(t *testing.T, backend, yaml string) *secureSite {
	t.Helper()
	dir := tempDir(t)
	s := &secureSite{sidecarProcess: &sidecarProcess{process: &process{t: t}, dir: dir}, ca: testkit.NewAuthority(t), caFile: filepath.Join(dir, "ca.pem")}
	writeFile(t, s.caFile, string(s.ca.PEM()))
	certificates := filepath.Join(dir, "certificates")
	if err := os.Mkdir(certificates, 0o700); err != nil {
		t.Fatal(err)
	}
	s.dir = certificates
	s.issue("site", "site.example", "*.site.example", "127.0.0.1")
	s.sidecarProcess = startProxy(t, backend, fmt.Sprintf(yaml, certificates))
	s.dir = certificates
	s.site = strings.TrimPrefix(s.url, "http://")
	return s
}

const overTLS = "listen: {address: 127.0.0.1:0, tls: true}\ntls: {certificates: %s}\n"

// trusting is a client's side.
func (s *secureSite) trusting() *tls.Config {
	return &tls.Config{RootCAs: s.ca.Pool, ServerName: "site.example"}
}

// shown is the first name of the certificate that a new client is shown.
func (s *secureSite) shown(name string) string {
	s.t.Helper()
	c, err := tls.Dial("tcp", s.site, &tls.Config{RootCAs: s.ca.Pool, ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// TestTLSWithRealClients has curl and openssl as clients; TestCurl has more of it.
func TestTLSWithRealClients(t *testing.T) {
	t.Parallel()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("X-Forwarded-Proto"), " ", r.Header.Get("X-Forwarded-For"), " ", r.Host)
	}))
	t.Cleanup(backend.Close)
	s := startSecure(t, backend.URL, overTLS+observed)
	_, port, _ := net.SplitHostPort(s.site)
	for args, want := range map[string]string{
		"--http1.1":             "https 127.0.0.1 site.example:PORT\n1.1 0",
		"--tls-max 1.2 --http2": "https 127.0.0.1 site.example:PORT\n2 0",
		"--http1.1 -H X-Forwarded-Proto:http -H X-Forwarded-For:203.0.113.7": "http 203.0.113.7, 127.0.0.1 site.example:PORT\n1.1 0", // its own word is not believed
	} {
		words := append([]string{"-sS", "--noproxy", "*", "--cacert", s.caFile, "--connect-to", "site.example:" + port + ":" + s.site, "-w", "\n%{http_version} %{ssl_verify_result}", "https://site.example:" + port + "/"}, strings.Fields(args)...)
		if status, out, errs := execute(t, nil, "curl", words...); status != 0 || out != strings.ReplaceAll(want, "PORT", port) {
			t.Errorf("%s: status %d, %q, want %q\n%s", args, status, out, want, errs)
		}
	}
	if _, out, _ := s.doctor("status"); !strings.Contains(out, "site.crt") || !regexp.MustCompile(`certificate .*site\.crt +valid to .*days left: 9\d`).MatchString(out) {
		t.Errorf("the status has no certificate:\n%s", out)
	}
	if _, out, _ := execute(t, nil, "curl", "-sS", "--noproxy", "*", "-i", "http://"+s.site+"/"); !strings.HasPrefix(out, "HTTP/1.1 400 Bad Request\r\n") {
		t.Errorf("plain HTTP: %q", out)
	}
	for args, want := range map[string]string{
		"-alpn h2 -tls1_3":               "ALPN protocol: h2",
		"-alpn http/1.1 -tls1_2":         "ALPN protocol: http/1.1",
		"-alpn imap":                     "no application protocol",
		"-tls1_1 -cipher ALL@SECLEVEL=0": "alert protocol version",
	} {
		out, _ := exec.Command("openssl", append([]string{"s_client", "-connect", s.site, "-servername", "www.site.example", "-CAfile", s.caFile, "-verify_return_error"}, strings.Fields(args)...)...).CombinedOutput()
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("openssl s_client %s: no %q:\n%s", args, want, out)
		}
	}
}

// TestCertificatesExchangedUnderLoad: no client fails while certificates change by SIGHUP, also in parts, and processes by
// SIGUSR2.
func TestCertificatesExchangedUnderLoad(t *testing.T) {
	t.Parallel()
	backend := pageBackend(t)
	s := startSecure(t, backend, overTLS+"log: {access: off}\n")
	reload := func(outcome string) {
		t.Helper()
		from := s.stderr.Len()
		s.signal(syscall.SIGHUP)
		s.stderr.Await(t, from, outcome)
		s.stderr.Await(t, from, reloaded)
	}
	underLoad(t, s.trusting(), "https://"+s.site+"/", 8, func(i int) {
		if i%4 == 3 {
			s.configure(t, backend, fmt.Sprintf("listen: {address: %q, tls: true}\ntls: {certificates: %s}\nlog: {access: off}\n", s.site, s.dir))
			before := s.process
			s.sidecarProcess = s.successor()
			before.exits(0)
			return
		}
		if i%4 == 0 { // half of it, and then the whole
			writeFile(t, filepath.Join(s.dir, "site.crt"), "-----BEGIN CERTIFICATE-----\nMIIB")
			reload("the one before stays")
		}
		name := fmt.Sprintf("version%d.example", i)
		s.issue("site", name, "site.example")
		reload(reloaded)
		if got := s.shown("site.example"); got != name {
			t.Errorf("%s is shown, want %s", got, name)
		}
	})
}

// TestHandedOverTLS: a socket of systemd's is served as its entry of listen says.
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
	if a := fetch(t, c, http.MethodGet, "https://"+l.Addr().String()+"/", nil, nil); a.body != "page" {
		t.Errorf("%s %q", a.Status, a.body)
	}
}

// TestTicketsOfAFleet: a client resumes at one sidecar the session that another one began, if they have one secret.
func TestTicketsOfAFleet(t *testing.T) {
	t.Parallel()
	backend := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(backend.Close)
	yaml := fmt.Sprintf("coordination: {secret: %q}\n", newSecret(t))
	for _, c := range []struct {
		first, second string
		want          bool
	}{{yaml, yaml, true}, {"", "", false}} {
		first := startSecure(t, backend.URL, overTLS+c.first)
		second := startProxy(t, backend.URL, fmt.Sprintf(overTLS, first.dir)+c.second) // it has the same certificate
		config := first.trusting()
		config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		resumed := func(at string) bool {
			conn, err := tls.Dial("tcp", at, config)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn) // tickets come behind the handshake
			return conn.ConnectionState().DidResume
		}
		if resumed(first.site) {
			t.Fatal("the first session is resumed")
		}
		if got := resumed(strings.TrimPrefix(second.url, "http://")); got != c.want {
			t.Errorf("with %q it is resumed at the other: %t", c.first, got)
		}
	}
}
