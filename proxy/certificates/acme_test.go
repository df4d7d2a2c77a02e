package certificates_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"tempomat/internal/testkit"
	"tempomat/proxy"
	"tempomat/proxy/certificates"
	"tempomat/proxy/connlimit"
	"tempomat/proxy/front"
)

// TestWithoutAuthority: if the authority does not answer, hosts have no certificates, but neither the start nor
// the end waits for the authority.
func TestWithoutAuthority(t *testing.T) {
	s := listen(t)
	dir := storage(t)
	testkit.Must(t, os.Mkdir(dir, 0o755))
	s.serve(t, certificates.Authority{Hosts: []string{"site.example"}, Directory: "https://" + testkit.FreeAddress(t) + "/dir", Storage: dir, HTTP: s.port(s.plain)})
	for _, host := range []string{"site.example", "other.example"} {
		if _, err := s.ask(nil, host); err == nil {
			t.Errorf("%s: no error", host)
		}
		if c := s.issuer.Certificate(&tls.ClientHelloInfo{ServerName: host}); c != nil {
			t.Errorf("%s has a certificate", host)
		}
		q := httptest.NewRequest(http.MethodGet, "http://"+host+":80/.well-known/acme-challenge/token", nil)
		if w := httptest.NewRecorder(); s.issuer.Challenge(w, q) {
			t.Errorf("%s: a challenge that nobody has is answered: %s", host, w.Body)
		}
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		if c := s.issuer.Certificate(&tls.ClientHelloInfo{ServerName: host, SupportedProtos: []string{certificates.ChallengeProtocol}, Conn: near}); c != nil {
			t.Errorf("%s: a challenge that nobody has is shown", host)
		}
	}
	if all := s.issuer.States(); len(all) != 1 || all[0].Fault == "" || !all[0].Expires.IsZero() {
		t.Errorf("%+v", all)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
}

// silent starts an authority that never answers, and returns a function that accepts a connection to it. It
// also stores a certificate for site.example, due for renewal later, in files with that name.
func silent(t *testing.T, certificate, key []byte) (o certificates.Authority, dir string, accept func()) {
	t.Helper()
	l := testkit.Listen(t)
	o = certificates.Authority{Hosts: []string{"site.example"}, Directory: "https://" + l.Addr().String(), Storage: storage(t), HTTP: net.TCPAddr{Port: 80}, Log: zap.NewNop()}
	dir = filepath.Join(o.Storage, certmagic.StorageKeys.CertsSitePrefix((&certmagic.ACMEIssuer{CA: o.Directory}).IssuerKey(), "site.example"))
	testkit.WriteCertificate(t, certificate, key, filepath.Join(dir, "site.example.crt"), filepath.Join(dir, "site.example.key"))
	testkit.WriteFile(t, filepath.Join(dir, "site.example.json"), `{"sans": ["site.example"], "issuer_data": {"renewal_info": {"_selectedTime":
		"2200-01-01T12:00:00Z", "suggestedWindow": {"start": "2200-01-01T00:00:00Z", "end": "2200-01-02T00:00:00Z"}}}}`, 0o600)
	return o, dir, func() {
		_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(testkit.Patience))
		conn, err := l.Accept()
		testkit.Must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
	}
}

// TestExpiredFile: clients get the authority's certificate instead of one from a file that has expired.
func TestExpiredFile(t *testing.T) {
	ca, dir := testkit.NewAuthority(t), t.TempDir()
	valid, key := ca.Issue(t, time.Now().AddDate(2, 0, 0), "site.example")
	o, _, _ := silent(t, valid, key)
	expired, key := ca.Issue(t, time.Now().AddDate(0, 0, -1), "site.example", "old.example")
	testkit.WriteCertificate(t, expired, key, filepath.Join(dir, "a.crt"), filepath.Join(dir, "a.key"))
	s := certificates.New(zap.NewNop())
	testkit.Must(t, s.Load([]certificates.Source{{Path: dir}}))
	issuer, err := certificates.NewIssuer(o)
	testkit.Must(t, err)
	go issuer.Run(t.Context())
	for name, want := range map[string]bool{"site.example": true, "old.example": false} {
		c, err := s.Config(issuer).GetCertificate(&tls.ClientHelloInfo{ServerName: name})
		testkit.Must(t, err)
		testkit.Same(t, want, time.Now().Before(c.Leaf.NotAfter), "%s: valid", name)
	}
}

// TestDamaged: a new certificate is requested if the stored one doesn't match its key. The old files are kept.
func TestDamaged(t *testing.T) {
	ca := testkit.NewAuthority(t)
	certificate, _ := ca.Issue(t, time.Now().AddDate(2, 0, 0), "site.example")
	_, key := ca.Issue(t, time.Now(), "site.example")
	o, dir, accept := silent(t, certificate, key)
	issuer, err := certificates.NewIssuer(o)
	testkit.Must(t, err)
	go issuer.Run(t.Context())
	accept() // waits for a request for a certificate
	testkit.Same(t, string(key), testkit.ReadFile(t, filepath.Join(dir+"~", "site.example.key")), "the old key")
}

// TestEndWithoutAnswer: shutting down doesn't wait for an authority that doesn't answer.
func TestEndWithoutAnswer(t *testing.T) {
	certificate, key := testkit.NewAuthority(t).Issue(t, time.Now().AddDate(2, 0, 0), "site.example")
	o, _, accept := silent(t, certificate, key)
	certificates.Set(&o, nil, time.Millisecond)
	issuer, err := certificates.NewIssuer(o)
	testkit.Must(t, err)
	accept() // waits for a check that asks when to renew the certificate
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	if issuer.Run(ctx); time.Since(began) > 20*time.Second {
		t.Error("the end waits for the library's timeout")
	}
}

// TestUnfit: NewIssuer rejects options that can't work.
func TestUnfit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(file, nil, 0o600))
	if _, err := certificates.NewIssuer(certificates.Authority{Storage: file, HTTP: net.TCPAddr{Port: 80}}); err == nil {
		t.Error("a file is no directory")
	}
	if _, err := certificates.NewIssuer(certificates.Authority{Storage: t.TempDir()}); err == nil {
		t.Error("nobody can see that a host is this one")
	}
}

// TestMain checks for leaked goroutines. The library keeps a rate limiter for each authority as long as the
// process lives, and watches a lock for some seconds after its release. On a busy machine, other goroutines may
// need longer than goleak's half second to end.
func TestMain(m *testing.M) {
	const of = "github.com/caddyserver/certmagic."
	code := m.Run()
	var left error
	for range 20 {
		left = goleak.Find(goleak.IgnoreAnyFunction(of+"(*RingBufferRateLimiter).loop"), goleak.IgnoreAnyFunction(of+"keepLockfileFresh"))
		if left == nil {
			break
		}
	}
	if left != nil {
		fmt.Fprintln(os.Stderr, left)
		code = max(code, 1)
	}
	os.Exit(code)
}

// storage returns a directory that is removed after the test. The library's background work may end slightly
// later than the test.
func storage(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tempomat-acme-")
	testkit.Must(t, err)
	t.Cleanup(func() {
		testkit.Eventually(t, "the directory is removed", func() bool { return os.RemoveAll(dir) == nil })
	})
	return filepath.Join(dir, "acme")
}

// site is a server with certificates from an Issuer.
type site struct {
	plain, secure net.Listener
	issuer        *certificates.Issuer
	stop          func()
}

// listen opens the addresses of a site.
func listen(t *testing.T) *site {
	t.Helper()
	return &site{plain: testkit.Listen(t), secure: testkit.Listen(t)}
}

// serve serves requests on these addresses.
func (s *site) serve(t *testing.T, o certificates.Authority) {
	t.Helper()
	o.Log = zap.NewNop() // certmagic may log after the end of the test
	issuer, err := certificates.NewIssuer(o)
	testkit.Must(t, err)
	s.issuer = issuer
	server := proxy.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "page") }),
		proxy.ServerOptions{
			Header: time.Minute, Idle: time.Minute, Challenges: issuer.Challenge, Log: zap.NewNop(), Table: connlimit.New(time.Now(), 100),
			Peer:    func(string) (netip.Addr, bool) { return netip.Addr{}, false },
			Stepped: func(front.Step, front.Result, string, error) {}, Malformed: func() {},
		})
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	all.Go(func() { issuer.Run(ctx) })
	all.Go(func() {
		if err := server.Serve([]proxy.Entrance{
			{Listener: s.plain, Redirect: true},
			{Listener: s.secure, TLS: certificates.New(zap.NewNop()).Config(issuer)},
		}); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	s.stop = sync.OnceFunc(func() {
		cancel()
		_ = server.Drain(context.Background())
		all.Wait()
	})
	t.Cleanup(s.stop)
}

func (s *site) port(l net.Listener) net.TCPAddr { return *l.Addr().(*net.TCPAddr) }

// ask requests a host's page over a new connection.
func (s *site) ask(roots *x509.CertPool, host string) (*x509.Certificate, error) {
	transport := &http.Transport{
		DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", s.secure.Addr().String())
		},
	}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport, Timeout: testkit.Patience}).Get("https://" + host + "/")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "page" {
		return nil, fmt.Errorf("%q, %w", body, err)
	}
	return res.TLS.PeerCertificates[0], nil
}
