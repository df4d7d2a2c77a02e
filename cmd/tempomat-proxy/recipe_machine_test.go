//go:build world

package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tempomat/internal/testkit"
)

// machine looks like a separate Debian to servers: a directory contains the files that Debian has below /, and each
// port that a page names is replaced by a free one. Nothing else on a page is changed.
type machine struct {
	t     *testing.T
	page  *recipePage
	dir   string
	ports map[string]string
	php   string // Debian's version of PHP

	servers    []server    // running servers
	cloudflare *cloudflare // nil: Cloudflare isn't in front of the machine
	tempomat   *sidecarProcess
	authority  *x509.CertPool // authority of the machine's certificate; nil: there is no certificate
	key        tls.Certificate
	gates      map[string]string // the port to use instead of a port of the site; missing ports are used directly
}

// visitorAddress is the address of visitors. Servers on this machine use another one.
const visitorAddress = "127.0.0.2"

// recipeRoot is the directory of all machines. Servers drop root's privileges, so every user may enter it.
var recipeRoot = sync.OnceValues(func() (string, error) {
	root, err := scratch()
	if err != nil {
		return "", err
	}
	return root, os.Chmod(root, 0o711)
})

// newMachine makes a machine on which the site isn't installed yet. page contains the changes to make.
func newMachine(t *testing.T, page *recipePage) *machine {
	t.Helper()
	if _, err := os.Stat("/etc/debian_version"); err != nil {
		t.Skip("the recipes are for Debian")
	}
	_, err := recipeRoot()
	testkit.Must(t, err)
	m := &machine{t: t, page: page, dir: tempDir(t), ports: map[string]string{}, gates: map[string]string{}}
	m.must(os.Chmod(m.dir, 0o755)) // for the users to which servers switch
	for _, port := range []string{"80", "443", "8080", "8443", "8888", "3000", "6081"} {
		m.ports[port] = freePort(t)
	}
	if found, _ := filepath.Glob("/etc/php/*/mods-available"); len(found) > 0 {
		m.php = filepath.Base(filepath.Dir(found[len(found)-1]))
	}
	for _, dir := range []string{"bin", "etc/tempomat", "run/php", "run/reload", "run/tempomat", "run/lock", "var/log/apache2", "var/log/nginx", "var/lib/apache2", "var/lib/tempomat", "var/www/html"} {
		m.must(os.MkdirAll(filepath.Join(m.dir, dir), 0o755))
	}
	m.must(os.Symlink("../run", m.path("/var/run")))
	m.must(os.Symlink("../run/lock", m.path("/var/lock")))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", m.logs())
		}
	})
	m.stand()
	return m
}

func (m *machine) must(err error) {
	m.t.Helper()
	testkit.Must(m.t, err)
}

// path returns the real path of a file on the machine.
func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

var (
	pathOfMachine = regexp.MustCompile(`(^|[^\w./-])/(etc|run|srv|var)\b`)
	pathOfSystem  = regexp.MustCompile(`/(etc|run|srv|var)\b`)
	portOfMachine = regexp.MustCompile(`(www\.example\.org:|:|[Ll]isten |\.port = "|PORT=)(\d+)\b`)
)

// local adapts a page's text to this machine.
func (m *machine) local(text string) string {
	text = pathOfMachine.ReplaceAllString(text, "${1}"+m.dir+"/$2")
	text = portOfMachine.ReplaceAllStringFunc(text, func(found string) string {
		digits := strings.TrimLeftFunc(found, func(c rune) bool { return c < '0' || c > '9' })
		here, ok := m.ports[digits]
		if before := strings.TrimSuffix(found, digits); ok && before != "www.example.org:" { // visitors see this name with the page's port
			return before + here
		}
		return found
	})
	if m.php != "" {
		text = strings.ReplaceAll(text, "8.2", m.php)
	}
	return strings.ReplaceAll(text, "203.0.113.7", visitorAddress)
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	m.must(os.MkdirAll(filepath.Dir(m.path(name)), 0o755))
	mode := os.FileMode(0o644)
	if strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	m.must(os.WriteFile(m.path(name), []byte(text), mode))
}

// copy copies a directory or file from this Debian to the same path on the machine.
func (m *machine) copy(from string) {
	m.t.Helper()
	m.copyAs(from, from)
}

// copyAs copies a directory or file to another path.
func (m *machine) copyAs(from, to string) {
	m.t.Helper()
	m.must(filepath.WalkDir(from, func(source string, d fs.DirEntry, err error) error {
		name := to + strings.TrimPrefix(source, from)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(m.path(name), 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			link, err := os.Readlink(source)
			if err != nil {
				return err
			}
			return os.Symlink(m.local(link), m.path(name))
		}
		text, err := os.ReadFile(source)
		if errors.Is(err, fs.ErrPermission) {
			return nil // a secret that no recipe needs
		}
		m.write(name, m.local(string(text)))
		return err
	}))
}

// stand replaces programs that would affect more than the machine.
func (m *machine) stand() {
	m.t.Helper()
	m.write("bin/apt", "#!/bin/sh\n")
	m.write("bin/chgrp", "#!/bin/sh\n") // the groups exist only if the package is installed
	m.write("bin/systemctl", "#!/bin/sh\n[ \"$1\" != reload ] || ! cd "+m.path("/run/reload")+" || for pid in *; do [ ! -e $pid ] || kill -$(cat $pid) $pid; done\n")
	m.write("bin/nginx", "#!/bin/sh\nexec /usr/sbin/nginx -p "+m.dir+" -c "+m.path("/etc/nginx/nginx.conf")+` -e stderr "$@"`+"\n")
	m.write("bin/tempomat-doctor", "#!/bin/sh\nexec "+program(m.t, "tempomat-doctor")+` "$@"`+"\n")
	m.write("bin/tempomat-proxy", "#!/bin/sh\nexec "+program(m.t, "tempomat-proxy")+` "$@"`+"\n")
	m.comesTo("", "")
}

// comesTo makes requests for a port of the site go to another port.
func (m *machine) comesTo(port, elsewhere string) {
	m.t.Helper()
	m.gates[port] = elsewhere
	text := fmt.Sprintf("interface = %s\ncacert = %s\n", visitorAddress, m.path("/etc/ssl/test.pem"))
	for _, port := range []string{"80", "443"} {
		text += fmt.Sprintf("connect-to = \"www.example.org:%s:127.0.0.1:%s\"\n", port, m.gate(port))
	}
	m.write(".curlrc", text)
}

// gate returns the port to which requests for a port of the site go.
func (m *machine) gate(port string) string { return cmp.Or(m.gates[port], m.ports[port]) }

func (m *machine) env() []string {
	return []string{
		"PATH=" + m.path("bin") + ":/usr/sbin:/usr/bin:/sbin:/bin", "CURL_HOME=" + m.dir, "HOME=" + m.dir,
		"APACHE_CONFDIR=" + m.path("/etc/apache2"), "APACHE_STATE_DIRECTORY=" + m.path("/var/lib/apache2"),
		"TEMPOMAT_ADMIN_LISTEN=unix:" + m.path("/run/tempomat/admin.sock"), "TEMPOMAT_STATE=off",
	}
}

// shell runs lines from a page.
func (m *machine) shell(lines string) string {
	m.t.Helper()
	local := m.local(lines)
	if pathOfSystem.MatchString(strings.ReplaceAll(local, m.dir+"/", "")) {
		m.t.Fatalf("%s.md would reach beyond the test's own files:\n%s", m.page.name, local)
	}
	var out, errs strings.Builder
	c := exec.CommandContext(m.t.Context(), "bash", "-euo", "pipefail", "-c", local)
	c.Stdout, c.Stderr, c.Env, c.Dir = &out, &errs, append(testkit.Environment(), m.env()...), m.dir
	if err := c.Run(); err != nil {
		m.t.Fatalf("%s.md: %v:\n%s%s%s", m.page.name, err, lines, out.String(), errs.String())
	}
	return out.String()
}

// follow carries out a section in order: it writes the files, runs the lines, and compares their output with the text
// that follows them.
func (m *machine) follow(section string) {
	m.t.Helper()
	var printed string
	for _, b := range m.page.under(m.t, section) {
		switch {
		case b.file != "":
			m.write(strings.TrimPrefix(m.local(b.file), m.dir), m.local(b.text))
		case b.language == "sh":
			printed = m.shell(b.text)
		case b.language == "text":
			if want := m.local(b.text); printed != want {
				m.t.Errorf("%s.md, %s: it printed\n%s, the page says\n%s", m.page.name, section, printed, want)
			}
		default:
			m.t.Errorf("%s.md, %s: nobody runs this block of %s:\n%s", m.page.name, section, b.language, b.text)
		}
	}
}

// followPage follows another page.
func (m *machine) followPage(name string, sections ...string) {
	m.t.Helper()
	own := m.page
	m.page = readRecipe(m.t, name)
	for _, section := range sections {
		m.follow(section)
	}
	m.page = own
}

// check carries out the check in docs/recipes.md.
func (m *machine) check(scheme string) {
	m.t.Helper()
	own := m.page
	m.page = readRecipe(m.t, "../recipes")
	if scheme == "https" {
		for i, b := range m.page.blocks {
			m.page.blocks[i].text = strings.NewReplacer("curl -s http:", "curl -s https:", "HTTPS=\n", "HTTPS=on\n").Replace(b.text)
		}
	}
	m.follow("Check")
	m.page = own
}

// state returns each file and link of the configuration and of the site: its mode, owner, and text or target.
func (m *machine) state() map[string]string {
	m.t.Helper()
	all := map[string]string{}
	for _, dir := range []string{"etc", "var/www"} {
		m.must(filepath.WalkDir(m.path(dir), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			var text []byte
			if info.Mode()&fs.ModeSymlink == 0 {
				text, err = os.ReadFile(name)
			} else if target, e := os.Readlink(name); e == nil {
				text = []byte(target)
			}
			owner := info.Sys().(*syscall.Stat_t)
			all[strings.TrimPrefix(name, m.dir)] = fmt.Sprintln(info.Mode(), owner.Uid, owner.Gid) + string(text)
			return err
		}))
	}
	return all
}

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

// recipePage is a page in docs/recipes. The tests follow its instructions.
type recipePage struct {
	name   string
	blocks []recipeBlock
}

// recipeBlock is the text between two fences.
type recipeBlock struct {
	section  string // heading above the block
	language string
	file     string // the file that consists of this text; empty: none
	text     string
}

// fence matches the beginning of a block, whose title is the name of a file.
var fence = regexp.MustCompile("^```(\\w+)(?: title=\"(/[^\"]+)\")?$")

func readRecipe(t *testing.T, name string) *recipePage {
	t.Helper()
	text := testkit.ReadFile(t, filepath.Join("../../docs/recipes", name+".md"))
	p := &recipePage{name: name}
	var section string
	var block *recipeBlock
	for i, line := range strings.Split(text, "\n") {
		if block != nil {
			if line == "```" {
				p.blocks, block = append(p.blocks, *block), nil
			} else {
				block.text += line + "\n"
			}
			continue
		}
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			section = heading
		}
		if !strings.HasPrefix(line, "```") {
			continue
		}
		words := fence.FindStringSubmatch(line)
		if words == nil {
			t.Fatalf("%s.md, line %d: no fence that a test can run: %s", name, i+1, line)
		}
		block = &recipeBlock{section: section, language: words[1], file: words[2]}
	}
	if block != nil {
		t.Fatalf("%s.md: a block has no end", name)
	}
	return p
}

// has reports whether a section has blocks.
func (p *recipePage) has(section string) bool {
	return slices.ContainsFunc(p.blocks, func(b recipeBlock) bool { return b.section == section })
}

// under returns the blocks of a section. If there are none, the test fails, because the page would show nothing.
func (p *recipePage) under(t *testing.T, section string) (blocks []recipeBlock) {
	t.Helper()
	for _, b := range p.blocks {
		if b.section == section {
			blocks = append(blocks, b)
		}
	}
	if len(blocks) == 0 {
		t.Fatalf("%s.md has no blocks under %q", p.name, section)
	}
	return blocks
}
