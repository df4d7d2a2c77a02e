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

// Authority is what certificates are got for, and where from.
type Authority struct {
	Hosts     []string       // lower case
	Directory string         // the authority's URL
	Roots     *x509.CertPool // roots for the authority's own certificate; nil: the system's
	Storage   string         // the directory that keeps everything
	// HTTP and TLS are the addresses at which this process listens, in the clear and with TLS;
	// an invalid port, 0: at none. The authority asks at ports 80 and 443, which may be
	// forwarded here.
	HTTP, TLS net.TCPAddr
	// Check is how often it is looked what has to be renewed; 0: every 10 minutes.
	Check time.Duration
	Log   *zap.Logger
}

// Issuer gets certificates from an authority for hosts that are configured, and for no others ever
// (RFC 8555), by github.com/caddyserver/certmagic. They are kept in a directory, so a start needs no
// authority: existing ones are served at once, and the others are requested in the background. The
// authority sees that a host is this one by a request in the clear (http-01) or by a handshake
// (tls-alpn-01), which come by the listeners that there are anyway. Its methods may be called
// concurrently.
type Issuer struct {
	hosts  []string
	cache  *certmagic.Cache
	config *certmagic.Config
	acme   *certmagic.ACMEIssuer
}

// NewIssuer makes an Issuer with the certificates that are in its directory. It makes no requests.
func NewIssuer(o Authority) (*Issuer, error) {
	if o.HTTP.Port == 0 && o.TLS.Port == 0 {
		return nil, errors.New("an authority sees that a host is this one at a TCP address, and none is served")
	}
	if err := prepare(o.Storage); err != nil {
		return nil, err
	}
	i := &Issuer{hosts: o.Hosts}
	var config atomic.Pointer[certmagic.Config] // the cache has a goroutine from now on
	i.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return config.Load(), nil },
		RenewCheckInterval: o.Check, Logger: o.Log,
	})
	i.config = certmagic.New(i.cache, certmagic.Config{
		Storage: &certmagic.FileStorage{Path: o.Storage}, Logger: o.Log,
		// A start must not wait for another server.
		OCSP: certmagic.OCSPConfig{DisableStapling: true},
	})
	i.acme = certmagic.NewACMEIssuer(i.config, certmagic.ACMEIssuer{
		CA: o.Directory, Agreed: true, TrustedRoots: o.Roots, Logger: o.Log,
		ListenHost: hostOf(o.HTTP, o.TLS), AltHTTPPort: o.HTTP.Port, AltTLSALPNPort: o.TLS.Port,
		DisableHTTPChallenge: o.HTTP.Port == 0, DisableTLSALPNChallenge: o.TLS.Port == 0,
	})
	i.config.Issuers = []certmagic.Issuer{i.acme}
	config.Store(i.config)
	for _, host := range o.Hosts {
		if _, err := i.config.CacheManagedCertificate(context.Background(), host); err != nil && !errors.Is(err, fs.ErrNotExist) {
			o.Log.Error("a certificate that was got before cannot be read; another one is got", zap.String("host", host), zap.Error(err))
		}
	}
	return i, nil
}

// prepare makes the directory for its owner alone, because it will contain private keys.
func prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = os.Chmod(dir, 0o700) //nolint:gosec // a directory has to be entered
	}
	if err != nil {
		return fmt.Errorf("only the owner may have access to %s: %w", dir, err)
	}
	return nil
}

// hostOf is where connections come in, if that is one address. During a challenge the library
// listens there if no process does.
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

// Run gets the certificates that there are not, and renews those that are about to expire, until
// the context ends.
func (i *Issuer) Run(ctx context.Context) {
	_ = i.config.ManageAsync(ctx, i.hosts)    // errors are logged, and it is tried again
	_ = i.cache.RenewManagedCertificates(ctx) // those of before the start would have to wait for the first check
	<-ctx.Done()
	i.cache.Stop()
}

// Certificate is the one for the name that the client asks for, or that of a challenge; nil: there
// is none.
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
		return nil // it was logged
	}
	return c
}

// First is one for clients that ask for a name that none has; nil: there is none.
func (i *Issuer) First() *tls.Certificate {
	for _, host := range i.hosts {
		if c := i.latest(host); c != nil {
			return c
		}
	}
	return nil
}

// latest is the certificate of a host that expires last; nil: there is none yet.
func (i *Issuer) latest(host string) (latest *tls.Certificate) {
	for _, c := range i.cache.AllMatchingCertificates(host) {
		if c.Leaf != nil && (latest == nil || c.Leaf.NotAfter.After(latest.Leaf.NotAfter)) {
			latest = &c.Certificate
		}
	}
	return latest
}

// Challenge answers an authority's request, or returns false if it is not about a certificate
// that this Issuer asks for.
func (i *Issuer) Challenge(w http.ResponseWriter, r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	return slices.Contains(i.hosts, strings.ToLower(host)) && i.acme.HandleHTTPChallenge(w, r)
}

// States are all hosts, in their order, and when their certificates expire: zero: there is
// none yet.
func (i *Issuer) States() []State {
	all := make([]State, 0, len(i.hosts))
	for _, host := range i.hosts {
		state := State{Certificate: host, Names: []string{host}}
		if c := i.latest(host); c != nil {
			state.Expires = c.Leaf.NotAfter
		} else {
			state.Fault = "there is none yet"
		}
		all = append(all, state)
	}
	return all
}
