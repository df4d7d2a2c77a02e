package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
)

// Authority describes the authority that issues certificates, and lists the hosts that need them.
type Authority struct {
	Hosts     []string // host names in lower case
	Directory string   // URL of the authority's ACME directory
	Storage   string   // directory for certificates, keys and the account
	// HTTP and TLS are the addresses on which this process listens without and with TLS. Port 0 means that it
	// doesn't. The authority connects to ports 80 and 443, which may be forwarded to these addresses.
	HTTP, TLS net.TCPAddr
	Log       *zap.Logger

	// Tests set these.
	roots *x509.CertPool // roots for the authority's own certificate; nil: the system's
	check time.Duration  // pause between two checks for certificates that must be renewed; 0: 10 minutes
}

// Issuer gets certificates for the configured hosts from an authority (RFC 8555), with
// github.com/caddyserver/certmagic. It keeps them in a directory, so that tempomat can start while the
// authority is down: existing certificates are served at once, and missing ones are requested in the
// background. To check that a host name leads to this machine, the authority sends a request without TLS
// (http-01) or a handshake (tls-alpn-01) to the site's listeners. The methods may be called concurrently.
type Issuer struct {
	hosts  []string
	cache  *certmagic.Cache
	config *certmagic.Config
	acme   *certmagic.ACMEIssuer
}

// NewIssuer makes an Issuer with the certificates that are in its directory. It makes no requests.
func NewIssuer(o Authority) (*Issuer, error) {
	if o.HTTP.Port == 0 && o.TLS.Port == 0 {
		return nil, errors.New("no address in listen can answer the authority's challenges: add a TCP address")
	}
	if err := prepare(o.Storage); err != nil {
		return nil, err
	}
	i := &Issuer{hosts: o.Hosts}
	var config atomic.Pointer[certmagic.Config] // atomic because the cache starts a goroutine
	i.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return config.Load(), nil },
		RenewCheckInterval: o.check, Logger: o.Log,
	})
	storage := &certmagic.FileStorage{Path: o.Storage}
	i.config = certmagic.New(i.cache, certmagic.Config{
		Storage: storage, Logger: o.Log,
		// With stapling, the start would wait for the authority's OCSP server.
		OCSP: certmagic.OCSPConfig{DisableStapling: true},
	})
	i.acme = certmagic.NewACMEIssuer(i.config, certmagic.ACMEIssuer{
		CA: o.Directory, Agreed: true, TrustedRoots: o.roots, Logger: o.Log,
		ListenHost: hostOf(o.HTTP, o.TLS), AltHTTPPort: o.HTTP.Port, AltTLSALPNPort: o.TLS.Port,
		DisableHTTPChallenge: o.HTTP.Port == 0, DisableTLSALPNChallenge: o.TLS.Port == 0,
	})
	i.config.Issuers = []certmagic.Issuer{i.acme}
	config.Store(i.config)
	for _, host := range o.Hosts {
		_, err := i.config.CacheManagedCertificate(context.Background(), host)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		o.Log.Error("a stored certificate can't be read; requesting a new one", zap.String("host", host), zap.Error(err))
		dir := storage.Filename(certmagic.StorageKeys.CertsSitePrefix(i.acme.IssuerKey(), host))
		// Moved, because the library requests only certificates that aren't in the storage.
		if err = errors.Join(os.RemoveAll(dir+"~"), os.Rename(dir, dir+"~")); err != nil {
			o.Log.Error("no new certificate is requested, because the stored one can't be moved", zap.String("host", host), zap.Error(err))
		}
	}
	return i, nil
}

// prepare creates the directory. Only its owner may enter it, because it will contain private keys.
func prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = os.Chmod(dir, 0o700) //nolint:gosec // a directory needs the permission to enter it
	}
	if err != nil {
		return fmt.Errorf("only the owner may have access to %s: %w", dir, err)
	}
	return nil
}

// hostOf returns the address on which both listeners listen, or an empty text if their addresses differ. This
// address tells the library that the process already listens for challenges. Otherwise the library would listen
// itself.
func hostOf(plain, secure net.TCPAddr) string {
	if plain.Port != 0 && secure.Port != 0 && !plain.IP.Equal(secure.IP) {
		return ""
	}
	ip := plain.IP
	if plain.Port == 0 {
		ip = secure.IP
	}
	if len(ip) == 0 || ip.IsUnspecified() {
		return ""
	}
	return ip.String()
}

// Run gets missing certificates, and renews those that are about to expire, until the context ends.
func (i *Issuer) Run(ctx context.Context) {
	_ = i.config.ManageAsync(ctx, i.hosts)    // logs errors and tries again
	_ = i.cache.RenewManagedCertificates(ctx) // otherwise existing certificates would be renewed only at the first check
	<-ctx.Done()
	stopped := make(chan struct{})
	go func() {
		i.cache.Stop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-time.After(time.Second): // a check may wait for the authority for minutes
	}
}

// Certificate returns the certificate for the name that the client asks for, or the answer to a challenge;
// nil: there is none.
func (i *Issuer) Certificate(hello *tls.ClientHelloInfo) *tls.Certificate {
	host := strings.TrimSuffix(strings.ToLower(hello.ServerName), ".")
	if !slices.Contains(i.hosts, host) {
		return nil
	}
	if !slices.Contains(hello.SupportedProtos, ChallengeProtocol) {
		return i.latest(host)
	}
	c, err := i.config.GetCertificate(hello)
	if err != nil {
		return nil // the library has logged the error
	}
	return c
}

// First returns the default certificate, for clients that ask for no name or for a name without a
// certificate; nil: there is none.
func (i *Issuer) First() *tls.Certificate {
	for _, host := range i.hosts {
		if c := i.latest(host); c != nil {
			return c
		}
	}
	return nil
}

// latest returns the host's certificate that expires last; nil: there is none yet.
func (i *Issuer) latest(host string) (latest *tls.Certificate) {
	for _, c := range i.cache.AllMatchingCertificates(host) {
		if c.Leaf != nil && (latest == nil || c.Leaf.NotAfter.After(latest.Leaf.NotAfter)) {
			latest = &c.Certificate
		}
	}
	return latest
}

// Challenge answers an authority's request, or returns false if this Issuer has not asked for the certificate.
func (i *Issuer) Challenge(w http.ResponseWriter, r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	return slices.Contains(i.hosts, strings.ToLower(host)) && i.acme.HandleHTTPChallenge(w, r)
}

// States returns all hosts in their order, and when their certificates expire; zero: there is none yet.
func (i *Issuer) States() []State {
	all := make([]State, 0, len(i.hosts))
	for _, host := range i.hosts {
		state := State{Certificate: host, Names: []string{host}}
		if c := i.latest(host); c != nil {
			state.Expires = c.Leaf.NotAfter
		} else {
			state.Fault = "the authority has not issued one yet"
		}
		all = append(all, state)
	}
	return all
}
