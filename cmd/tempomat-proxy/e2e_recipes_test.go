//go:build world

package main

import (
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// TestWorldRecipes follows the pages in docs/recipes with the real programs: it writes the files that a page shows, and
// runs the page's commands. It then checks the promises in docs/recipes.md, that no visitor can claim another address
// or scheme, and that the commands under "Undo" restore everything.
func TestWorldRecipes(t *testing.T) {
	t.Parallel()
	for _, r := range recipes() {
		t.Run(r.page+r.section+r.with, func(t *testing.T) {
			t.Parallel()
			r.run(t)
		})
	}
}

// recipes returns the recipes of all pages.
func recipes() []recipe {
	return []recipe{
		{page: "apache", with: "-mod-php", scheme: "http", install: installModPHP, start: serving("8080 80", apacheServes, tempomatServes)},
		{page: "apache", with: "-php-fpm", scheme: "http", install: installApacheFPM, start: serving("8080 80", phpFPMServes, apacheServes, tempomatServes), more: findsPHPFPM},
		{page: "nginx-php-fpm", scheme: "http", install: installNginx(nginxSite), start: serving("8080 80", phpFPMServes, nginxServes, tempomatServes), more: findsPHPFPM},
		{page: "apache-tls", scheme: "https", install: installApacheTLS, start: serving("8080 443 8888", apacheServes, frontApacheServes, tempomatServes), more: crowdWaits},
		{page: "nginx-tls", scheme: "https", install: installNginx(nginxTLSSite), start: serving("8080 443 8888", phpFPMServes, nginxServes, tempomatServes)},
		{page: "haproxy", on: "apache", scheme: "https", install: installBehindHAProxy, start: serving("8080 8888 443", apacheServes, tempomatServes, haproxyServes)},
		{page: "haproxy-proxy-protocol", on: "apache", scheme: "https", install: installBehindHAProxy, start: serving("8080 8888 8443 443 80", apacheServes, tempomatServes, haproxyServes), more: refusesWithoutHeader},
		{page: "own-tls", on: "apache", scheme: "https", install: installModPHP, start: serving("8080 443 80", apacheServes, tempomatServes), more: redirectsToHTTPS},
		{page: "varnish", on: "apache", scheme: "http", install: installBehindVarnish, start: serving("8080 8888 80", apacheServes, tempomatServes, serviceServes("varnish.service.d/tempomat.conf"))},
		{page: "cloudflare", on: "apache", scheme: "https", install: installBehindCloudflare, start: serving("8080 80", apacheServes, tempomatServes), more: cloudflareMoves},
		{page: "applications", section: "Node", scheme: "http", install: installNode, start: serving("3000 80", serviceServes("app.service"), tempomatServes)},
		{page: "applications", section: "Python", scheme: "http", install: installPython, start: serving("3000 80", serviceServes("app.service"), tempomatServes)},
		{page: "applications", section: "Ruby", scheme: "http", install: installRuby, start: serving("3000 80", serviceServes("app.service"), tempomatServes)},
	}
}

// recipe describes how to test a page.
type recipe struct {
	page    string
	with    string           // the server with which to follow the page, if the page describes several
	section string           // section that is followed before "Change"; empty: none
	on      string           // page that is followed before this one; empty: none
	scheme  string           // of the site
	install func(m *machine) // creates the state before the changes
	start   func(m *machine) // applies the page's changes, until the site is served
	more    func(m *machine) // checks the page's other promises; nil: none
}

func (r recipe) run(t *testing.T) {
	m := newMachine(t, readRecipe(t, r.page))
	if r.scheme == "https" {
		m.certificate()
	}
	r.prepare(m)
	others := func() map[string]string { // without tempomat's own files, which stay
		all := m.state()
		maps.DeleteFunc(all, func(name, _ string) bool { return strings.HasPrefix(name, "/etc/tempomat/") })
		return all
	}
	before := others()
	m.follow("Change")
	r.start(m)
	v := m.visitor(r.scheme)
	if isFile(m.path("/var/www/html/spy.php")) {
		m.check(r.scheme)
		v.cannotPretend("/who.php")
		v.cannotPretendToPHP()
		v.isRedirected()
	} else {
		v.cannotPretend("/")
	}
	if r.more != nil {
		r.more(m)
	}
	if m.page.has("Undo") {
		m.follow("Undo")
	}
	testkit.Same(t, before, others(), "%s.md: after Undo", r.page)
}

// prepare creates the state before the page's changes.
func (r recipe) prepare(m *machine) {
	r.install(m)
	if r.on != "" {
		m.followPage(r.on, "Change")
		if r.scheme == "https" {
			m.followPage(r.on, "HTTPS in front")
		}
	}
	if r.section != "" {
		m.follow(r.section)
	}
}

func installModPHP(m *machine) {
	m.apache2("mpm_prefork", "php"+m.php)
	m.site()
}

func installApacheFPM(m *machine) {
	m.apache2("mpm_event")
	m.phpFPM()
	m.site()
	m.shell("a2enmod proxy_fcgi setenvif\na2enconf php8.2-fpm")
}

// serving returns a function that starts servers in the given order, and waits until a program listens on each of the
// page's ports.
func serving(ports string, servers ...func(m *machine)) func(m *machine) {
	return func(m *machine) {
		for _, starts := range servers {
			starts(m)
		}
		m.await(strings.Fields(ports)...)
	}
}

func apacheServes(m *machine)      { m.startApache2() }
func frontApacheServes(m *machine) { m.startApache2At("/etc/apache2-front") }
func phpFPMServes(m *machine)      { m.startPHPFPM() }
func nginxServes(m *machine)       { m.start("nginx", m.path("/bin/nginx"), "-g", "daemon off;") }
func tempomatServes(m *machine)    { m.startTempomat() }
func haproxyServes(m *machine) {
	m.start("haproxy", "/usr/sbin/haproxy", "-db", "-f", m.path("/etc/haproxy/haproxy.cfg"))
}

func serviceServes(unit string) func(m *machine) {
	return func(m *machine) { m.startService(unit) }
}

// installApacheTLS creates a site with TLS, as certbot configures it.
func installApacheTLS(m *machine) {
	installModPHP(m)
	m.write("/etc/apache2/sites-available/www.example.org-le-ssl.conf", m.local(`<VirtualHost *:443>
    ServerName www.example.org
    DocumentRoot /var/www/html
    SSLEngine on
    SSLCertificateFile /etc/letsencrypt/live/www.example.org/fullchain.pem
    SSLCertificateKeyFile /etc/letsencrypt/live/www.example.org/privkey.pem
</VirtualHost>
`))
	m.shell("a2enmod ssl\na2ensite www.example.org-le-ssl")
}

// installNginx returns a function that installs nginx with one site, which has the given listen directives.
func installNginx(listens string) func(m *machine) {
	return func(m *machine) {
		m.nginx()
		m.phpFPM()
		m.site()
		m.write("/etc/nginx/sites-available/www.example.org", m.local(listens+`	server_name www.example.org;
	root /var/www/html;
	index index.php index.html;

	location / {
		try_files $uri $uri/ =404;
	}
	location ~ \.php$ {
		include snippets/fastcgi-php.conf;
		fastcgi_pass unix:/run/php/php8.2-fpm.sock;
	}
}
`))
		m.must(os.Remove(m.path("/etc/nginx/sites-enabled/default")))
		m.enable("nginx", "sites", "www.example.org")
	}
}

const (
	nginxSite    = "server {\n\tlisten 80;\n"
	nginxTLSSite = `server {
	listen 80;
	server_name www.example.org;
	return 301 https://$host$request_uri;
}

server {
	listen 443 ssl;
	ssl_certificate /etc/letsencrypt/live/www.example.org/fullchain.pem;
	ssl_certificate_key /etc/letsencrypt/live/www.example.org/privkey.pem;
`
)

func installBehindHAProxy(m *machine) {
	installModPHP(m)
	m.haproxy()
}

func installBehindVarnish(m *machine) {
	installModPHP(m)
	m.varnish()
}

func installNode(m *machine) {
	m.need("/usr/bin/node", "nodejs")
	m.application("/usr/bin/node /srv/app/server.js", "server.js", `const http = require('http')
http.createServer((request, response) => {
  const visitor = request.headers['x-forwarded-for']
  const scheme = request.headers['x-forwarded-proto']
  response.setHeader('Cache-Control', 'no-store')
  response.end(scheme + ', ' + visitor)
}).listen(process.env.PORT, process.env.HOST)
`)
}

func installPython(m *machine) {
	m.need("/usr/bin/gunicorn", "gunicorn")
	m.application("/usr/bin/gunicorn --workers 5 --chdir /srv/app --bind ${HOST}:${PORT} app:app", "app.py", `def app(environ, start_response):
    start_response('200 OK', [('Content-Type', 'text/plain'), ('Cache-Control', 'no-store')])
    return [(environ['wsgi.url_scheme'] + ', ' + environ['HTTP_X_FORWARDED_FOR']).encode()]
`)
}

func installRuby(m *machine) {
	m.need("/usr/bin/puma", "puma")
	m.need("/usr/share/doc/ruby-rack/copyright", "ruby-rack")
	m.application("/usr/bin/puma --threads 5:5 --bind tcp://${HOST}:${PORT} /srv/app/config.ru", "config.ru", `require 'rack'

run(lambda do |env|
  request = Rack::Request.new(env)
  [200, { 'Content-Type' => 'text/plain', 'Cache-Control' => 'no-store' }, ["#{request.scheme}, #{request.ip}"]]
end)
`)
}

// application starts a service that shows the visitor's scheme and address as it sees them.
func (m *machine) application(command, file, text string) {
	m.write("/srv/app/"+file, text)
	m.write("/etc/systemd/system/app.service", m.local("[Service]\nEnvironment=HOST=0.0.0.0 PORT=80\nExecStart="+command+"\n"))
}

// redirectsToHTTPS checks that the port without TLS redirects to HTTPS.
func redirectsToHTTPS(m *machine) {
	v := m.visitor("http")
	a := v.get("/dir?a=b", nil)
	if to := a.Header.Get("Location"); a.StatusCode != http.StatusMovedPermanently || to != "https://www.example.org/dir?a=b" {
		m.t.Errorf("%s.md: http leads to %q, with %s", m.page.name, to, a.Status)
	}
}

// refusesWithoutHeader checks that tempomat rejects a visitor who connects to it directly with a PROXY header.
func refusesWithoutHeader(m *machine) {
	redirectsToHTTPS(m)
	m.shell("! curl -s --haproxy-protocol http://127.0.0.1:8888/")
}

// site creates a page that shows everything that PHP gets, a page that shows the visitor, and a directory, whose URL
// without a slash is redirected.
func (m *machine) site() {
	m.write("/var/www/html/who.php", "<?php header('Cache-Control: no-store'); echo $_SERVER['REMOTE_ADDR'], ' ', $_SERVER['HTTPS'] ?? '', ' ', $_SERVER['HTTP_HOST'];\n")
	const spy = "<?php header('Content-Type: application/json'); header('Cache-Control: no-store'); echo json_encode($_SERVER);\n"
	m.write("/var/www/html/spy.php", spy)
	m.write("/var/www/html/dir/index.php", spy)
}

// haproxyHead is the beginning of a configuration for HAProxy.
const haproxyHead = "global\n    log stdout format raw local0\ndefaults\n    timeout connect 5s\n    timeout client 1m\n    timeout server 1m\n"
