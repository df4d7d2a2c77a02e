//go:build world

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// TestWorldRecipes follows the pages of docs/recipes with the real programs: what they have the
// reader write is written, what they have the reader type is run, and what they promise is
// looked at. Nobody can claim to come from elsewhere, or otherwise; and the way back
// leads back.
func TestWorldRecipes(t *testing.T) {
	t.Parallel()
	for _, r := range recipes() {
		t.Run(r.page, func(t *testing.T) {
			t.Parallel()
			r.run(t)
		})
	}
}

// recipes are the pages.
func recipes() []recipe {
	return []recipe{
		{page: "apache-mod-php", scheme: "http", install: installModPHP, start: startModPHP},
		{page: "apache-php-fpm", scheme: "http", install: installApacheFPM, start: startApacheFPM, more: findsPHPFPM},
		{page: "nginx-php-fpm", scheme: "http", install: installNginxFPM, start: startNginxFPM, more: findsPHPFPM},
		{page: "apache-tls", scheme: "https", install: installModPHP, start: startApacheTLS, more: crowdWaits},
		{page: "nginx-tls", scheme: "https", install: installNginxFPM, start: startNginxFPM},
		{page: "haproxy", on: "apache-mod-php", scheme: "https", install: installBehindHAProxy, start: startBehindHAProxy},
		{page: "haproxy-proxy-protocol", on: "apache-mod-php", scheme: "https", install: installBehindHAProxy, start: startBehindHAProxyTCP},
		{page: "own-tls", on: "apache-mod-php", scheme: "https", install: installModPHP, start: startOwnTLS},
		{page: "varnish", on: "apache-mod-php", scheme: "http", install: installBehindVarnish, start: startBehindVarnish},
		{page: "cloudflare", on: "apache-mod-php", scheme: "https", install: installBehindCloudflare, start: startBehindCloudflare, more: cloudflareMoves},
		{page: "node", scheme: "http", install: installNode, start: startApplication},
		{page: "python", scheme: "http", install: installPython, start: startApplication},
		{page: "ruby", scheme: "http", install: installRuby, start: startApplication},
	}
}

// recipe is a page.
type recipe struct {
	page    string
	on      string           // the page that is followed before it; empty: none
	scheme  string           // that people come by
	install func(m *machine) // what is there before
	start   func(m *machine) // what the page has changed, until it serves
	more    func(m *machine) // what else it promises; nil: nothing
}

func (r recipe) run(t *testing.T) {
	m := newMachine(t, r.page)
	if r.scheme == "https" {
		m.certificate()
	}
	r.prepare(m)
	before := m.configuration()
	m.follow("Change")
	r.start(m)
	m.follow("Check")
	v := m.visitor(r.scheme)
	v.cannotPretend()
	if isFile(m.path("/var/www/html/spy.php")) {
		v.cannotPretendToPHP()
		v.isRedirected()
	}
	if r.more != nil {
		r.more(m)
	}
	m.follow("The way back")
	m.isBack(before)
}

// prepare has what is there before the page is followed.
func (r recipe) prepare(m *machine) {
	r.install(m)
	if r.on != "" {
		m.followPage(r.on, "Install", "Change")
	}
	m.follow("Install")
}

func installModPHP(m *machine) {
	m.apache2("mpm_prefork", "php"+m.php)
	m.site()
}

func startModPHP(m *machine) {
	m.startApache2()
	m.startTempomat()
	m.await("8080", "80")
}

func installApacheFPM(m *machine) {
	m.apache2("mpm_event")
	m.phpFPM()
	m.site()
}

func startApacheFPM(m *machine) {
	m.startPHPFPM()
	m.startApache2()
	m.startTempomat()
	m.awaitAll()
}

func startApacheTLS(m *machine) {
	m.startApache2()
	m.startApache2At("/etc/apache2-front")
	m.startTempomat()
	m.awaitAll()
}

func installNginxFPM(m *machine) {
	m.nginx()
	m.phpFPM()
	m.site()
}

func startNginxFPM(m *machine) {
	m.startPHPFPM()
	m.startNginx()
	m.startTempomat()
	m.awaitAll()
}

func installBehindHAProxy(m *machine) {
	installModPHP(m)
	m.haproxy()
}

func startBehindHAProxy(m *machine) {
	m.startApache2()
	m.startTempomat()
	m.startHAProxy()
	m.await("8080", "8888", "443")
}

func startBehindHAProxyTCP(m *machine) {
	m.startApache2()
	m.startTempomat()
	m.startHAProxy()
	m.await("8080", "8888", "8443", "443", "80")
}

func startOwnTLS(m *machine) {
	m.startApache2()
	m.startTempomat()
	m.await("8080", "443", "80")
}

func installBehindVarnish(m *machine) {
	installModPHP(m)
	m.varnish()
}

func startBehindVarnish(m *machine) {
	m.startApache2()
	m.startTempomat()
	m.startService("varnish.service.d/tempomat.conf")
	m.await("8080", "8888", "80")
}

func installNode(m *machine) { m.need("/usr/bin/node", "nodejs") }

func installPython(m *machine) { m.need("/usr/bin/gunicorn", "gunicorn") }

func installRuby(m *machine) {
	m.need("/usr/bin/puma", "puma")
	m.need("/usr/share/doc/ruby-rack/copyright", "ruby-rack")
}

func startApplication(m *machine) {
	m.startService("app.service")
	m.startTempomat()
	m.await("3000", "80")
}

// site is a page that shows all that PHP is told, and a directory, whose name without a
// slash is redirected.
func (m *machine) site() {
	const spy = "<?php header('Content-Type: application/json'); header('Cache-Control: no-store'); echo json_encode($_SERVER);\n"
	m.write("/var/www/html/spy.php", spy)
	m.write("/var/www/html/dir/index.php", spy)
}

// TestWorldHTTPSManual checks that HAProxy accepts the configuration for it in docs/https.md.
func TestWorldHTTPSManual(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/https.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?ms)^```haproxy\n(.*?)^```").FindStringSubmatch(string(text))
	if block == nil {
		t.Fatal("there is none")
	}
	dir := tempDir(t)
	certificate, key := testkit.NewAuthority(t).Issue(t, time.Now().AddDate(0, 0, 1), "site.example")
	writeFile(t, filepath.Join(dir, "site.pem"), string(certificate)+string(key))
	file := filepath.Join(dir, "haproxy.cfg")
	writeFile(t, file, haproxyHead+strings.ReplaceAll(block[1], "/etc/haproxy", dir))
	if out, err := exec.Command(testkit.Program(t, "haproxy"), "-c", "-f", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
