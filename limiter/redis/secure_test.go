package redis

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter/quota"
)

// certificate makes a certificate for 127.0.0.1. It returns the certificate's files and a pool that trusts the
// certificate.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	ca, dir := testkit.NewAuthority(t), t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	cert, key := ca.Issue(t, time.Now().Add(time.Hour), "127.0.0.1")
	testkit.WriteCertificate(t, cert, key, certFile, keyFile)
	return certFile, keyFile, ca.Pool
}

// TestTLSAndUser connects with TLS to a database other than 0, as a user with only the necessary permissions.
func TestTLSAndUser(t *testing.T) {
	t.Parallel()
	certFile, keyFile, pool := certificate(t)
	plain := startServer(t)
	_, port, _ := net.SplitHostPort(testkit.FreeAddress(t))
	s := startServer(t, append(strings.Fields("--user default off --user sidecar on >secret ~site:* &* -@all +@connection "+
		"+eval +evalsha +time +select +get +set +xadd +xrange +pexpire +pttl +hmget +hset +hincrby +multi +exec"),
		"--tls-port", port, "--tls-cert-file", certFile, "--tls-key-file", keyFile,
		"--tls-ca-cert-file", certFile, "--tls-auth-clients", "no")...)
	o := Options{
		Address: net.JoinHostPort("127.0.0.1", port), TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		Username: "sidecar", Password: "secret", Database: 3, Prefix: "site:", Timeout: s.options().Timeout,
	}
	if info, err := checker(t, o).Check(ctx, time.Time{}, "a", t.Name(), quota.Bucket{Size: 1, DripRate: 1000, DripSize: 1}, 1); err != nil || info.Blocked {
		t.Errorf("%+v, %v", info, err)
	}
	linked(t, startSidecar(t, o), startSidecar(t, o))
	for name, wrong := range map[string]func(*Options){
		"password":    func(o *Options) { o.Password = "guess" },
		"certificate": func(o *Options) { o.TLS = &tls.Config{MinVersion: tls.VersionTLS12} },
		"prefix":      func(o *Options) { o.Prefix = "other:" },
		"server":      func(o *Options) { o.Address = plain.Address },
	} {
		o := o
		o.Timeout = time.Second
		wrong(&o)
		c := checker(t, o)
		if _, err := c.Check(ctx, time.Time{}, "a", "b", quota.Bucket{Size: 1, DripRate: 1000, DripSize: 1}, 1); err == nil {
			t.Errorf("a check with a wrong %s succeeded", name)
		}
		testkit.Eventually(t, "the state shows the error of a wrong "+name, func() bool { return c.State().LastError != "" })
	}
}

// TestUserComesLater: if the server doesn't know the user yet, the connection is tried again.
func TestUserComesLater(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	o := s.options()
	o.Username, o.Password = "sidecar", "secret"
	c := checker(t, o)
	b := quota.Bucket{Size: 5, DripRate: 1000, DripSize: 1}
	if _, err := c.Check(ctx, time.Time{}, "a", "b", b, 1); err == nil || c.State().Connected {
		t.Errorf("a check by an unknown user succeeded: %v, %+v", err, c.State())
	}
	direct := s.direct()
	must(t, direct.Do(ctx, direct.B().Arbitrary("ACL", "SETUSER", "sidecar", "on", ">secret", "~*", "+@all").Build()))
	testkit.Eventually(t, "the server knows the user", func() bool {
		_, err := c.Check(ctx, time.Time{}, "a", "b", b, 1)
		return err == nil
	})
}
