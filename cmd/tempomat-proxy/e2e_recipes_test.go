package main

import "testing"

// TestRecipes follows the pages of docs/recipes with the real programs: what they have the
// reader write is written, what they have the reader type is run, and what they promise is
// looked at. Nobody can claim to come from elsewhere, or otherwise; and the way back
// leads back.
func TestRecipes(t *testing.T) {
	for _, r := range []recipe{
		{page: "apache-mod-php", scheme: "http", install: installModPHP, start: startModPHP},
		{page: "apache-php-fpm", scheme: "http", install: installApacheFPM, start: startApacheFPM},
		{page: "nginx-php-fpm", scheme: "http", install: installNginxFPM, start: startNginxFPM},
		{page: "apache-tls", scheme: "https", install: installApacheFPM, start: startApacheFPM},
		{page: "nginx-tls", scheme: "https", install: installNginxFPM, start: startNginxFPM},
	} {
		t.Run(r.page, func(t *testing.T) {
			t.Parallel()
			r.run(t)
		})
	}
}

// recipe is a page.
type recipe struct {
	page    string
	scheme  string           // that people come by
	install func(m *machine) // what is there before
	start   func(m *machine) // what the page has changed, until it serves
}

func (r recipe) run(t *testing.T) {
	m := newMachine(t, r.page)
	if r.scheme == "https" {
		m.certificate()
	}
	r.install(m)
	m.follow("Install")
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
	m.follow("The way back")
	m.isBack(before)
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
	m.await("8080", m.front())
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
	m.await("8080", m.front())
}

// site is a page that shows all that PHP is told, and a directory, whose name without a
// slash is redirected.
func (m *machine) site() {
	const spy = "<?php header('Content-Type: application/json'); echo json_encode($_SERVER);\n"
	m.write("/var/www/html/spy.php", spy)
	m.write("/var/www/html/dir/index.php", spy)
}
