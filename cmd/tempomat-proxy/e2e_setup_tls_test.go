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

// secure adds sites with TLS, and certificates in the way of certbot: links in a
// directory to files in another one, which only root may read.
func (m *setupMachine) secure(site func(name, chain, key string) string, file string) {
	m.t.Helper()
	mode := os.FileMode(0o600)
	if _, err := osuser.LookupGroup("ssl-cert"); err != nil {
		mode = 0o644 // there is no group that could get them
	}
	authority := testkit.NewAuthority(m.t)
	for _, name := range []string{"site.example", "other.example"} {
		chain, key := authority.Issue(m.t, time.Now().Add(24*time.Hour), name)
		m.certbot(name, chain, key, mode)
		live := m.path("/etc/letsencrypt/live/" + name)
		m.write(fmt.Sprintf(file, name), site(name, live+"/fullchain.pem", live+"/privkey.pem"))
	}
	if mode == 0o600 {
		m.must(os.Chmod(m.path("etc/letsencrypt/live"), 0o700))
		m.must(os.Chmod(m.path("etc/letsencrypt/archive"), 0o700))
	}
}

// secureApache has a rule as people have it in .htaccess: it would redirect in a circle
// if Apache did not see TLS.
func secureApache(t *testing.T) *setupMachine {
	m := debianApache(t)
	m.shell("a2enmod -q ssl rewrite")
	m.write("etc/apache2/sites-available/000-default.conf", fmt.Sprintf("<VirtualHost *:%d>\n\tRedirect permanent / https://site.example/\n</VirtualHost>\n", m.place.HTTP))
	m.write("etc/apache2/sites-enabled/plain.conf", fmt.Sprintf("<VirtualHost *:%d>\n\tServerName plain.example\n\tDocumentRoot %s\n</VirtualHost>\n", m.place.HTTP, m.path("/var/www/html")))
	m.secure(func(name, chain, key string) string {
		return fmt.Sprintf("<IfModule mod_ssl.c>\n<VirtualHost *:%d>\n\tServerName %s\n\tDocumentRoot %s\n\tCustomLog %s/access.log combined\n\tSSLEngine on\n\tSSLCertificateFile %s\n\tSSLCertificateKeyFile %s\n"+
			"\tRewriteEngine on\n\tRewriteCond %%{HTTPS} !=on\n\tRewriteRule ^ https://%%{SERVER_NAME}%%{REQUEST_URI} [R=302,L]\n</VirtualHost>\n</IfModule>\n",
			m.place.HTTPS, name, m.path("/var/www/html"), m.path("/var/log/apache2"), chain, key)
	}, "etc/apache2/sites-available/%s-le-ssl.conf")
	m.enable("apache2", "sites", "site.example-le-ssl.conf")
	m.enable("apache2", "sites", "other.example-le-ssl.conf")
	return m
}

func secureNginx(t *testing.T) *setupMachine {
	m := debianNginx(t)
	m.write("etc/nginx/sites-available/default", fmt.Sprintf("server {\n\tlisten %d default_server;\n\tlisten [::]:%[1]d default_server;\n\treturn 301 https://$host$request_uri;\n}\n", m.place.HTTP))
	m.write("etc/nginx/sites-enabled/plain", fmt.Sprintf("server {\n\tlisten %d;\n\tserver_name plain.example;\n\troot %s;\n}\n", m.place.HTTP, m.path("/var/www/html")))
	once := " ipv6only=on"
	m.secure(func(name, chain, key string) string {
		only := once
		once = "" // nginx takes it only once for an address
		return fmt.Sprintf("server {\n\tserver_name %s;\n\troot %s;\n\tif ($scheme = http) {\n\t\treturn 302 https://$host$request_uri;\n\t}\n"+
			"    listen [::]:%[3]d ssl http2%[6]s; # managed by Certbot\n    listen %[3]d ssl http2; # managed by Certbot\n    ssl_certificate %[4]s; # managed by Certbot\n    ssl_certificate_key %[5]s; # managed by Certbot\n}\n",
			name, m.path("/var/www/html"), m.place.HTTPS, chain, key, only)
	}, "etc/nginx/sites-enabled/%s") // no link: the former text must not lie beside it
	return m
}

// TestWorldSetupTLS: the proxy ends TLS, and the sites see it as they did; what only
// redirects stays where it is.
func TestWorldSetupTLS(t *testing.T) {
	t.Parallel()
	servers := map[string]func(*testing.T) *setupMachine{"apache2": secureApache, "nginx": secureNginx}
	for unit, install := range servers {
		t.Run(unit, func(t *testing.T) {
			t.Parallel()
			m := install(t)
			before := m.state()
			m.systemctl("restart", unit)
			m.serves(m.place.HTTPS, true)
			if status, said := m.setup("-write"); status != 0 {
				t.Fatalf("%d:\n%s\n%v\n%s", status, said, m.runs, m.server.stderr)
			}
			if m.proxy == nil {
				t.Fatal("the proxy was not started")
			}
			a, err := m.get(m.place.HTTPS, true, "/")
			if err != nil || a.status != 200 || a.body != "the first page\n" {
				t.Errorf("%+v, %v\n%s", a, err, m.proxy.stderr)
			}
			testkit.Eventually(t, "the server logs the visitor's address", m.seen) // after its answer
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
		})
	}
}
