//go:build world

package main

import (
	"crypto/tls"
	"os"
	"time"

	"tempomat/internal/testkit"
)

// certificate creates a certificate for www.example.org.
func (m *machine) certificate() {
	m.t.Helper()
	authority := testkit.NewAuthority(m.t)
	chain, key := authority.Issue(m.t, time.Now().Add(time.Hour), "www.example.org", "www.cloudflare.com")
	m.certbot("www.example.org", chain, key, 0o640)
	var err error
	m.key, err = tls.X509KeyPair(chain, key)
	m.must(err)
	m.write("/etc/ssl/test.pem", string(authority.PEM()))
	m.authority = authority.Pool
}

// certbot stores a certificate like certbot: links in a directory to files in another one.
func (m *machine) certbot(name string, chain, key []byte, mode os.FileMode) {
	m.t.Helper()
	live, archive := "/etc/letsencrypt/live/"+name+"/", "/etc/letsencrypt/archive/"+name+"/"
	m.must(os.MkdirAll(m.path(live), 0o755))
	for part, text := range map[string][]byte{"fullchain": chain, "privkey": key} {
		m.write(archive+part+"1.pem", string(text))
		m.must(os.Chmod(m.path(archive+part+"1.pem"), mode))
		m.must(os.Symlink("../../archive/"+name+"/"+part+"1.pem", m.path(live+part+".pem")))
	}
}
