package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"tempomat/internal/testkit"
	"tempomat/proxy"
	"tempomat/proxy/acme/pebbletest"
	"tempomat/proxy/certificates"
)

// The library has a rate limiter for each authority as long as the process lives, and looks after
// a lock for some seconds after that was given up. On a busy machine it takes more than goleak's
// half second until all else has ended.
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

// storage names a directory that is removed after the test. What the library does in the
// background may end a moment after all else.
func storage(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tempomat-acme-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		testkit.Eventually(t, "the directory is removed", func() bool { return os.RemoveAll(dir) == nil })
	})
	return filepath.Join(dir, "acme")
}

// site is a server with certificates of an Issuer.
type site struct {
	plain, secure net.Listener
	issuer        *Issuer
	stop          func()
}

// listen opens the addresses of a site.
func listen(t *testing.T) *site {
	t.Helper()
	s := &site{}
	for _, l := range []*net.Listener{&s.plain, &s.secure} {
		var err error
		if *l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// serve serves them.
func (s *site) serve(t *testing.T, o Options) {
	t.Helper()
	o.Log = zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))
	issuer, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.issuer = issuer
	server := proxy.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "page") }),
		proxy.ServerOptions{Header: time.Minute, Idle: time.Minute, Challenges: issuer.Challenge, Log: zap.NewNop()})
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

// ask asks a host for its page over a new connection.
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

// TestRenewalUnderLoad gets certificates from a real authority by either challenge, and renews
// them again and again while clients connect, of whom none fails.
func TestRenewalUnderLoad(t *testing.T) {
	for challenge, plain := range map[string]bool{"http-01": true, "tls-alpn-01": false} {
		t.Run(challenge, func(t *testing.T) {
			t.Parallel()
			// The library renews a name once at a time in the whole process, and remembers its failures:
			// with names in common one site would leave out what another does.
			for site := 0; ; site++ {
				domain := fmt.Sprintf("%s-%d.example", challenge, site)
				if renewsUnderLoad(t, []string{domain, "www." + domain}, plain) {
					return
				}
				t.Logf("Pebble does not renew a certificate of %s: once more", domain)
			}
		})
	}
}

// renewsUnderLoad renews the certificates of two hosts twice. It returns false if Pebble cannot
// renew one that it gave.
func renewsUnderLoad(t *testing.T, hosts []string, plain bool) bool {
	t.Helper()
	// What is valid for less than five checks more is renewed at the next one: here at the first.
	const valid, check = 40 * time.Second, 8 * time.Second
	s := listen(t)
	p := pebbletest.Start(t, s.port(s.plain).Port, s.port(s.secure).Port, valid)
	o := Options{
		Hosts: hosts, Email: "admin@site.example", Directory: p.Directory, Roots: p.Roots,
		Storage: storage(t), TLS: s.port(s.secure), Check: check,
	}
	if plain {
		o.HTTP, o.TLS = s.port(s.plain), net.TCPAddr{}
	}
	s.serve(t, o)
	defer s.stop()
	testkit.Eventually(t, "there are certificates", func() bool {
		return s.issuer.latest(hosts[0]) != nil && s.issuer.latest(hosts[1]) != nil
	})
	asked := 0
	renewed := map[string]map[string]bool{hosts[0]: {}, hosts[1]: {}} // serial numbers of each host
	pace := time.NewTicker(100 * time.Millisecond)                    // of the clients: other tests run beside this one
	defer pace.Stop()
	for len(renewed[hosts[0]]) < 3 || len(renewed[hosts[1]]) < 3 {
		for _, host := range hosts {
			c, err := s.ask(p.Issuers, host)
			if asked++; err != nil {
				t.Fatalf("%d handshakes, then: %v", asked, err)
			}
			if !pebbletest.Renews(c) {
				return false
			}
			renewed[host][c.SerialNumber.String()] = true
		}
		<-pace.C
	}
	if _, err := s.ask(p.Issuers, "other.example"); err == nil || strings.Contains(err.Error(), "EOF") {
		t.Errorf("a host that nobody has configured: %v", err)
	}
	if info, err := os.Stat(o.Storage); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info.Mode(), err)
	}
	t.Logf("%d handshakes, none failed", asked)
	return true
}
