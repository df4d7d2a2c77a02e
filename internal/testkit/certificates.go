package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority issues certificates. Its methods may be called concurrently.
type Authority struct {
	Pool        *x509.CertPool // contains only this authority's certificate
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes an Authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "tempomat test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	Must(t, err)
	a := &Authority{key: key, Pool: x509.NewCertPool()}
	a.certificate, err = x509.ParseCertificate(der)
	Must(t, err)
	a.Pool.AddCert(a.certificate)
	return a
}

// PEM returns the Authority's own certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// Issue makes a certificate for names and addresses that is valid until the given time, and the certificate's
// key. Both are PEM.
func (a *Authority) Issue(t testing.TB, until time.Time, names ...string) (certificate, key []byte) {
	t.Helper()
	k := newKey(t)
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: names[0]},
		NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, n := range names {
		if ip, err := netip.ParseAddr(n); err == nil {
			template.IPAddresses = append(template.IPAddresses, net.IP(ip.AsSlice()))
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &k.PublicKey, a.key)
	Must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	Must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// Pair issues a certificate for a server in this process, valid for a day.
func (a *Authority) Pair(t testing.TB, names ...string) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(a.Issue(t, time.Now().AddDate(0, 0, 1), names...))
	Must(t, err)
	return pair
}

// WriteCertificate writes a certificate and its key to files, and creates their directories.
func WriteCertificate(t testing.TB, certificate, key []byte, certificateFile, keyFile string) {
	t.Helper()
	for file, data := range map[string][]byte{certificateFile: certificate, keyFile: key} {
		Must(t, os.MkdirAll(filepath.Dir(file), 0o700))
		Must(t, os.WriteFile(file, data, 0o600))
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Must(t, err)
	return k
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	Must(t, err)
	return n
}
