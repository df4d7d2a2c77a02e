//go:build world

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// TestStandingOfPeople: a user logs in to a real WordPress and a real MediaWiki behind the proxy, with the files from
// deploy/. The applications attest logged-in users at once, and only to the proxy: no client sees the header, and a
// header from a client is dropped.
func TestStandingOfPeople(t *testing.T) {
	for name, start := range map[string]func(*testing.T) *application{"wordpress": startWordPress, "mediawiki": startMediaWiki} {
		t.Run(name, func(t *testing.T) {
			app := start(t)
			s := startProxy(t, app.backend, "log: {access: all}\n")
			const reader, known, forger = "203.0.113.1", "198.51.100.1", "192.0.2.1"
			stranger, person := app.visitor(t, s, reader), app.visitor(t, s, known)
			stranger.get(app.page)
			if e := stranger.evidence(); strings.Contains(e, "attested") {
				t.Errorf("a reader has %q", e)
			}
			app.login(person)
			if direct := person.at(app.backend).get(app.page); direct.Header.Get("Tempomat-Standing") != "yes" {
				t.Fatalf("the application does not know who is logged in: %v", direct.Header)
			}
			for _, page := range append(app.others, app.page, app.page) {
				if h := person.get(page).Header; h.Get("Tempomat-Standing") != "" {
					t.Errorf("%s: the client sees %v", page, h)
				}
			}
			if e := person.evidence(); !strings.Contains(e, "attested") {
				t.Errorf("somebody who is logged in has %q", e)
			}
			lying := app.visitor(t, s, forger)
			lying.header = http.Header{"Tempomat-Standing": {"yes"}}
			lying.get(app.page)
			lying.get(app.page)
			if e := lying.evidence(); strings.Contains(e, "attested") {
				t.Errorf("who says it of itself has %q", e)
			}
		})
	}
}

// application is an application with a login.
type application struct {
	backend, host, page string
	others              []string // other pages
	login               func(*member)
}

// member is a user with a browser, at the proxy or directly at the application.
type member struct {
	t         *testing.T
	proxy     *sidecarProcess
	url, from string
	host      string
	client    *http.Client
	header    http.Header
}

func (app *application) visitor(t *testing.T, s *sidecarProcess, address string) *member {
	t.Helper()
	jar, err := cookiejar.New(nil)
	testkit.Must(t, err)
	c := newClient(t)
	c.Jar = jar
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &member{t: t, proxy: s, url: s.url, from: address, host: app.host, client: c}
}

// at returns the same browser, with its cookies, at another port of this machine. Cookies are independent of ports.
func (v *member) at(url string) *member {
	w := *v
	w.url = url
	return &w
}

func (v *member) ask(method, page string, form url.Values) answer {
	v.t.Helper()
	h := http.Header{"X-Forwarded-For": {v.from}, "Host": {v.host}, "Accept": {"text/html"}, "User-Agent": {"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"}}
	maps.Copy(h, v.header)
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
		h.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return fetch(v.t, v.client, method, v.url+page, h, body)
}

func (v *member) get(page string) answer {
	v.t.Helper()
	a := v.ask(http.MethodGet, page, nil)
	if a.StatusCode != http.StatusOK {
		v.t.Fatalf("%s: %s\n%.500s", page, a.Status, a.body)
	}
	return a
}

// evidence returns the evidence for the browser's last logged request.
func (v *member) evidence() (last string) {
	v.t.Helper()
	testkit.Eventually(v.t, "the request is logged", func() bool {
		seen := false
		for line := range strings.Lines(v.proxy.Stderr.String()) {
			var of struct{ Client, Evidence string }
			if json.Unmarshal([]byte(line), &of) == nil && of.Client == v.from {
				last, seen = of.Evidence, true
			}
		}
		return seen
	})
	return last
}

// servePHP serves a directory with PHP's own server, and waits until a page can be fetched.
func servePHP(t *testing.T, env []string, root, host, page string) string {
	t.Helper()
	address := "127.0.0.1:" + freePort(t)
	testkit.Start(t, env, "/usr/bin/php", "-S", address, "-t", root)
	c := newClient(t)
	testkit.Eventually(t, "PHP serves "+root, func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+page, nil)
		testkit.Must(t, err)
		r.Host = host
		res, err := c.Do(r)
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return true
	})
	return "http://" + address
}

func startWordPress(t *testing.T) *application {
	b := newBlog(t)
	const host = "www.example.org"
	testkit.WriteFile(t, filepath.Join(b.site, "wp-config.php"), fmt.Sprintf(blogConfig, b.socket, "http://"+host), 0o644)
	plugins := filepath.Join(b.site, "wp-content", "mu-plugins")
	testkit.Must(t, os.MkdirAll(plugins, 0o755))
	b.run(t, "cp", "../../deploy/wordpress/tempomat-standing.php", plugins)
	app := &application{host: host, page: "/?p=1", others: []string{"/wp-admin/profile.php", "/index.php?rest_route=/"}}
	app.backend = servePHP(t, nil, b.site, host, "/?p=1")
	app.login = func(v *member) {
		v.get("/wp-login.php") // the page checks whether cookies are kept
		a := v.ask(http.MethodPost, "/wp-login.php", url.Values{"log": {"admin"}, "pwd": {blogSecret}, "testcookie": {"1"}, "wp-submit": {"Log In"}})
		if a.StatusCode != http.StatusFound {
			v.t.Fatalf("logging in: %s\n%.2000s", a.Status, a.body)
		}
	}
	return app
}

func startMediaWiki(t *testing.T) *application {
	const root = "/usr/share/mediawiki"
	if !isFile(root + "/index.php") {
		t.Fatal("MediaWiki is not here: make test-standing installs it")
	}
	b := &blog{dir: tempDir(t)}
	b.socket = filepath.Join(b.dir, "db.sock")
	testkit.Must(t, os.Chmod(b.dir, 0o777))
	b.startDatabase(t)
	const host = "wiki.example.org"
	b.run(t, "php", root+"/maintenance/install.php", "--dbtype", "mysql", "--dbserver", "localhost:"+b.socket, "--dbname", "blog", "--dbuser", "blog", "--dbpass", "blog",
		"--installdbuser", "blog", "--installdbpass", "blog", "--server", "http://"+host, "--scriptpath", "", "--lang", "en", "--pass", blogSecret, "--confpath", b.dir, "Wiki", "Admin")
	settings := filepath.Join(b.dir, "LocalSettings.php")
	snippet, err := filepath.Abs("../../deploy/mediawiki/tempomat-standing.php")
	testkit.Must(t, err)
	text := testkit.ReadFile(t, settings)
	testkit.WriteFile(t, settings, fmt.Sprintf("%s\n$wgCacheDirectory = '%s';\n$wgSessionCacheType = CACHE_DB;\nrequire_once '%s';\n", text, b.dir, snippet), 0o644)
	app := &application{host: host, page: "/index.php?title=Main_Page", others: []string{"/api.php?action=query&meta=userinfo&format=json"}}
	app.backend = servePHP(t, []string{"MW_CONFIG_FILE=" + settings}, root, host, "/index.php?title=Special:Version")
	token := regexp.MustCompile(`name="wpLoginToken"[^>]*value="([^"]+)"|value="([^"]+)"[^>]*name="wpLoginToken"`)
	app.login = func(v *member) {
		a := v.get("/index.php?title=Special:UserLogin")
		found := token.FindStringSubmatch(a.body)
		if found == nil {
			v.t.Fatalf("no form:\n%.3000s", a.body)
		}
		a = v.ask(http.MethodPost, "/index.php?title=Special:UserLogin", url.Values{
			"wpName": {"Admin"}, "wpPassword": {blogSecret}, "wpLoginToken": {strings.ReplaceAll(found[1]+found[2], "&#43;", "+")},
			"wploginattempt": {"Log in"}, "authAction": {"login"}, "title": {"Special:UserLogin"},
		})
		if a.StatusCode != http.StatusFound {
			v.t.Fatalf("logging in: %s\n%.3000s", a.Status, a.body)
		}
	}
	return app
}
