package redis

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
	"tempomat/limiter/quota"
)

// certificate makes one for 127.0.0.1, and returns its files and who trusts it.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	ca, dir := testkit.NewAuthority(t), t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	cert, key := ca.Issue(t, time.Now().Add(time.Hour), "127.0.0.1")
	testkit.WriteCertificate(t, cert, key, certFile, keyFile)
	return certFile, keyFile, ca.Pool
}

// TestTLSAndUser connects encrypted, as a user who may do only what is needed, to
// a database of its own.
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
		Addresses: []string{net.JoinHostPort("127.0.0.1", port)}, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
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
		"server":      func(o *Options) { o.Addresses = []string{plain.Address} },
	} {
		o := o
		o.Timeout = time.Second
		wrong(&o)
		c := checker(t, o)
		if _, err := c.Check(ctx, time.Time{}, "a", "b", quota.Bucket{Size: 1, DripRate: 1000, DripSize: 1}, 1); err == nil || c.State().LastError == "" {
			t.Errorf("with a wrong %s: %v", name, err)
		}
	}
}

// TestSentinel finds the master through a sentinel.
func TestSentinel(t *testing.T) {
	t.Parallel()
	master := startServer(t)
	host, port, _ := net.SplitHostPort(master.Address)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	os.WriteFile(file, []byte("sentinel monitor site "+host+" "+port+" 1\n"), 0o600)
	_, port, _ = net.SplitHostPort(testkit.FreeAddress(t))
	sentinel := testkit.RedisCommand(t, file, "--sentinel", "--port", port, "--bind", "127.0.0.1")
	if err := sentinel.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sentinel.Process.Kill()
		sentinel.Wait()
	})
	address := net.JoinHostPort("127.0.0.1", port)
	testkit.Eventually(t, "the sentinel listens", func() bool {
		c, err := net.Dial("tcp", address)
		return err == nil && c.Close() == nil
	})
	o := Options{Addresses: []string{address}, SentinelMaster: "site", Timeout: master.options().Timeout}
	c := checker(t, o)
	if info, err := c.Check(ctx, time.Time{}, "a", "b", quota.Bucket{Size: 1, DripRate: 1000, DripSize: 1}, 1); err != nil || info.Blocked {
		t.Errorf("%+v, %v", info, err)
	}
	linked(t, startSidecar(t, o), startSidecar(t, o))
}
