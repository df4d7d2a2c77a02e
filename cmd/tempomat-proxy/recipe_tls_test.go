//go:build world

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"time"
)

// certificate puts one for www.example.org where certbot puts them.
func (m *machine) certificate() {
	m.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	m.must(err)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "www.example.org"}, DNSNames: []string{"www.example.org", "www.cloudflare.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	m.must(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	m.must(err)
	m.key = tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
	public := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
	const live, archive = "/etc/letsencrypt/live/www.example.org/", "/etc/letsencrypt/archive/www.example.org/"
	m.must(os.MkdirAll(m.path(live), 0o755))
	for name, text := range map[string]string{"fullchain": public, "privkey": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))} {
		m.write(archive+name+"1.pem", text)
		m.must(os.Symlink("../../archive/www.example.org/"+name+"1.pem", m.path(live+name+".pem")))
	}
	m.must(os.Chmod(m.path(archive+"privkey1.pem"), 0o640))
	m.write("/etc/ssl/test.pem", public)
	m.authority = x509.NewCertPool()
	m.authority.AppendCertsFromPEM([]byte(public))
}
