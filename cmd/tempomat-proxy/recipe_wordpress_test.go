//go:build world

package main

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// TestWordPress: a user logs in to WordPress, writes a post and reads it, in a real Chromium over HTTPS, with each
// recipe for TLS. The blog is that of Debian. It doesn't know the servers in front of it, only that the URL of its home
// page begins with https. If the servers didn't report the scheme, the blog would redirect to itself.
func TestWordPress(t *testing.T) {
	b := newBlog(t)
	for _, r := range recipes() {
		if r.scheme != "https" || r.page == "cloudflare" { // the test of that recipe imitates Cloudflare inside a connection
			continue
		}
		t.Run(r.page, func(t *testing.T) {
			m := newMachine(t, readRecipe(t, r.page))
			m.certificate()
			r.prepare(m)
			m.follow("Change")
			m.must(os.RemoveAll(m.path("/var/www/html")))
			m.must(os.Symlink(b.site, m.path("/var/www/html")))
			r.start(m)
			p := startPerson(m)
			p.logsIn(t)
			p.posts(t, "Behind "+r.page)
		})
	}
}

const (
	blogHome   = "https://www.example.org"
	blogSecret = "Secret-pass-1"
)

// logsIn logs in as a user who has never been there.
func (p *person) logsIn(t *testing.T) {
	t.Helper()
	p.Visit(blogHome + "/wp-admin/")
	p.Await("the login form", "document.readyState === 'complete' && location.pathname === '/wp-login.php' && !!document.querySelector('#loginform')")
	p.sees("document.querySelector('#user_login').value = 'admin'; document.querySelector('#user_pass').value = '" + blogSecret + "'; document.querySelector('#wp-submit').click()")
	p.Await("the dashboard", "document.readyState === 'complete' && location.href.startsWith('"+blogHome+"/wp-admin/') && !!document.querySelector('#wpadminbar')")
	p.isWhole(t)
}

// posts writes a post with the block editor and reads it.
func (p *person) posts(t *testing.T, title string) {
	t.Helper()
	p.Visit(blogHome + "/wp-admin/post-new.php")
	p.Await("the editor", "!!wp.data.select('core/editor').getCurrentPostId()")
	p.isWhole(t)
	p.sees(fmt.Sprintf("const e = wp.data.dispatch('core/editor'); e.editPost({title: %q, content: '<!-- wp:paragraph --><p>It works.</p><!-- /wp:paragraph -->', status: 'publish'}); e.savePost()", title))
	p.Await("the post is saved", "wp.data.select('core/editor').isCurrentPostPublished() && !wp.data.select('core/editor').isSavingPost()")
	link := p.sees("return wp.data.select('core/editor').getPermalink()")
	if !strings.HasPrefix(link, blogHome+"/") {
		t.Fatalf("the post is at %s", link)
	}
	p.Visit(link)
	p.Await("the post", fmt.Sprintf("document.readyState === 'complete' && location.href === %q && document.body.innerText.includes('It works.') && document.title.startsWith(%q)", link, title))
	p.isWhole(t)
}

// isWhole checks that no part of the page is loaded without TLS, or from the server's own address.
func (p *person) isWhole(t *testing.T) {
	t.Helper()
	if odd := p.sees("return performance.getEntriesByType('resource').map(e => e.name).filter(n => n.startsWith('http:') || n.includes('example.org:'))"); odd != "" {
		t.Errorf("%s has parts at %s", p.sees("return location.href"), odd)
	}
	if n := p.sees("return performance.getEntriesByType('resource').filter(e => e.name.startsWith('" + blogHome + "/')).length"); n == "0" || n == "" {
		t.Errorf("%s has no parts of the site", p.sees("return location.href"))
	}
}

// blog is an installed WordPress of Debian with its database.
type blog struct{ dir, site, socket string }

func newBlog(t *testing.T) *blog {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("the database and the servers change to users of their own, which only root can do")
	}
	for _, file := range []string{"/usr/share/wordpress/wp-load.php", "/usr/sbin/mariadbd", "/usr/share/wordpress/wp-content/themes/twentytwentythree/style.css"} {
		if !isFile(file) {
			t.Fatalf("%s is not here: make recipes-wordpress installs it", file)
		}
	}
	if _, err := recipeRoot(); err != nil {
		t.Fatal(err)
	}
	dir := tempDir(t)
	b := &blog{dir: dir, site: filepath.Join(dir, "site"), socket: filepath.Join(dir, "db.sock")}
	testkit.Must(t, os.Chmod(dir, 0o777)) // the database creates its socket there
	b.startDatabase(t)
	b.run(t, "cp", "-rL", "/usr/share/wordpress", b.site)
	b.run(t, "chown", "-R", "www-data:www-data", filepath.Join(b.site, "wp-content"))
	testkit.WriteFile(t, filepath.Join(b.site, "wp-config.php"), fmt.Sprintf(blogConfig, b.socket, blogHome), 0o644)
	install := filepath.Join(dir, "install.php")
	testkit.WriteFile(t, install, fmt.Sprintf(blogInstall, b.site, blogSecret), 0o644)
	b.run(t, "php", install)
	return b
}

const blogConfig = `<?php
define('DB_NAME', 'blog'); define('DB_USER', 'blog'); define('DB_PASSWORD', 'blog'); define('DB_HOST', 'localhost:%s');
define('DB_CHARSET', 'utf8mb4'); define('DB_COLLATE', '');
foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $k) { define($k.'_KEY', md5($k)); define($k.'_SALT', md5("$k salt")); }
$table_prefix = 'wp_';
define('WP_HOME', '%[2]s'); define('WP_SITEURL', '%[2]s');
define('DISABLE_WP_CRON', true); define('WP_HTTP_BLOCK_EXTERNAL', true); define('AUTOMATIC_UPDATER_DISABLED', true);
define('ABSPATH', __DIR__.'/');
require_once ABSPATH.'wp-settings.php';
`

const blogInstall = `<?php
define('WP_INSTALLING', true);
$_SERVER['HTTP_HOST'] = 'www.example.org'; $_SERVER['REQUEST_URI'] = '/'; $_SERVER['SERVER_PROTOCOL'] = 'HTTP/1.1';
function wp_new_blog_notification() {} // sends mail
require '%s/wp-load.php';
require ABSPATH.'wp-admin/includes/upgrade.php';
wp_install('Blog', 'admin', 'admin@example.org', true, '', '%s');
`

// run runs a program to its end.
func (b *blog) run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

func (b *blog) startDatabase(t *testing.T) {
	t.Helper()
	data := filepath.Join(b.dir, "db")
	b.run(t, "mariadb-install-db", "--no-defaults", "--user=mysql", "--datadir="+data, "--skip-test-db", "--auth-root-authentication-method=socket", "--innodb-log-file-size=16M")
	testkit.Start(t, nil, "/usr/sbin/mariadbd", "--no-defaults", "--user=mysql", "--datadir="+data, "--socket="+b.socket,
		"--pid-file="+filepath.Join(b.dir, "db.pid"), "--skip-networking", "--innodb-log-file-size=16M")
	testkit.Eventually(t, "the database is there", func() bool {
		return exec.CommandContext(t.Context(), "mariadb-admin", "--no-defaults", "--socket="+b.socket, "ping").Run() == nil
	})
	b.run(t, "mariadb", "--no-defaults", "--socket="+b.socket, "-e",
		"create database blog character set utf8mb4; create user blog@localhost identified by 'blog'; grant all on blog.* to blog@localhost")
}

// startPerson starts a browser that trusts the machine's certificate and can find the machine's site.
func startPerson(m *machine) *person {
	m.t.Helper()
	site, err := x509.ParseCertificate(m.key.Certificate[0])
	m.must(err)
	key := sha256.Sum256(site.RawSubjectPublicKeyInfo)
	return &person{testkit.StartChromium(m.t, "--ignore-certificate-errors-spki-list="+base64.StdEncoding.EncodeToString(key[:]),
		"--host-resolver-rules=MAP www.example.org:443 127.0.0.1:"+m.gate("443")+", MAP * ~NOTFOUND, EXCLUDE 127.0.0.1").Open(testkit.Look{Width: 1280, Height: 800})}
}

// person is a real Chromium with one page.
type person struct{ *testkit.Tab }

// sees runs a script in the page and returns the result as text. If the page can't run the script yet, the text is
// empty.
func (p *person) sees(script string) (text string) {
	_ = p.TryEval("String((() => { try { "+script+" } catch (e) { return '' } })() ?? '')", &text)
	return text
}
