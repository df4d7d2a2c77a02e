//go:build world

package main

import (
	"fmt"
	"os"
	osuser "os/user"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// secureApache returns a machine that has sites with TLS and certificates like certbot's: links in a directory to files
// in another one, which only root may read. A common .htaccess rule would redirect in circles if Apache didn't see
// TLS.
func secureApache(t *testing.T) *setupMachine {
	m := debianApache(t)
	m.shell("a2enmod -q ssl rewrite")
	m.write("etc/apache2/sites-available/000-default.conf", fmt.Sprintf("<VirtualHost *:%d>\n\tRedirect permanent / https://site.example/\n</VirtualHost>\n", m.place.HTTP))
	m.write("etc/apache2/sites-enabled/plain.conf", fmt.Sprintf("<VirtualHost *:%d>\n\tServerName plain.example\n\tDocumentRoot %s\n</VirtualHost>\n", m.place.HTTP, m.path("/var/www/html")))
	mode := os.FileMode(0o600)
	if _, err := osuser.LookupGroup("ssl-cert"); err != nil {
		mode = 0o644 // setup couldn't give a group access to the files
	}
	authority := testkit.NewAuthority(t)
	for _, name := range []string{"site.example", "other.example"} {
		chain, key := authority.Issue(t, time.Now().Add(24*time.Hour), name)
		m.certbot(name, chain, key, mode)
		live := m.path("/etc/letsencrypt/live/" + name)
		m.write("etc/apache2/sites-available/"+name+"-le-ssl.conf", fmt.Sprintf("<IfModule mod_ssl.c>\n<VirtualHost *:%d>\n"+
			"\tServerName %s\n\tDocumentRoot %s\n\tCustomLog %s/access.log combined\n\tSSLEngine on\n\tSSLCertificateFile %[5]s/fullchain.pem\n\tSSLCertificateKeyFile %[5]s/privkey.pem\n"+
			"\tRewriteEngine on\n\tRewriteCond %%{HTTPS} !=on\n\tRewriteRule ^ https://%%{SERVER_NAME}%%{REQUEST_URI} [R=302,L]\n</VirtualHost>\n</IfModule>\n",
			m.place.HTTPS, name, m.path("/var/www/html"), m.path("/var/log/apache2"), live))
		m.enable("apache2", "sites", name+"-le-ssl.conf")
	}
	if mode == 0o600 {
		m.must(os.Chmod(m.path("etc/letsencrypt/live"), 0o700))
		m.must(os.Chmod(m.path("etc/letsencrypt/archive"), 0o700))
	}
	return m
}

// TestWorldSetupTLS: the proxy terminates TLS, and the sites still see TLS. A site that only redirects stays on its
// port.
func TestWorldSetupTLS(t *testing.T) {
	t.Parallel()
	m := secureApache(t)
	before := m.state()
	m.systemctl("restart", "apache2")
	m.serves(m.place.HTTPS, true)
	if status, said := m.setup("-write"); status != 0 {
		t.Fatalf("%d:\n%s\n%v\n%s", status, said, m.runs, m.server.Stderr)
	}
	if m.proxy == nil {
		t.Fatal("the proxy was not started")
	}
	a, err := m.get(m.place.HTTPS, true, "/")
	if err != nil || a.status != 200 || a.body != "the first page\n" {
		t.Errorf("%+v, %v\n%s", a, err, m.proxy.Stderr)
	}
	testkit.Eventually(t, "the server logs the visitor's address", m.seen) // the server logs a request after answering it
	if a, err := m.get(m.place.HTTPS, true, "/sub"); err != nil || a.status != 301 || a.location != "https://site.example/sub/" {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := m.get(m.place.HTTP, false, "/"); err != nil || a.status != 301 || !strings.HasPrefix(a.location, "https://site.example/") {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := m.getFrom("plain.example", m.place.HTTP, "http", "/"); err != nil || a.status != 200 || a.body != "the first page\n" {
		t.Errorf("pages beside TLS: %+v, %v", a, err)
	}
	if status, said := m.setup("-undo"); status != 0 {
		t.Errorf("%d:\n%s", status, said)
	}
	m.sameState(before)
	m.serves(m.place.HTTPS, true)
}
