//go:build world

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"tempomat/internal/testkit"
)

// apacheModules are the modules that Debian's Apache enables, in addition to the one that runs requests.
var apacheModules = strings.Fields("access_compat alias auth_basic authn_core authn_file authz_core authz_host authz_user " +
	"autoindex deflate dir env filter mime negotiation reqtimeout setenvif status")

// debian is the directory with the part of Debian's packages that is in /etc.
const debian = "../../testdata/debian/"

// apache2 installs Debian's Apache with some more modules, as Debian does.
func (m *machine) apache2(modules ...string) {
	m.t.Helper()
	m.need("/usr/sbin/apache2", "apache2")
	m.copyAs(debian+"apache2", "/etc/apache2")
	if m.php != "" {
		for _, pattern := range []string{"mods-available/php*", "conf-available/php*"} {
			found, err := filepath.Glob("/etc/apache2/" + pattern)
			m.must(err)
			for _, name := range found {
				m.copy(name)
			}
		}
	}
	m.copy("/etc/mime.types")
	for _, name := range []string{"charset.conf", "localized-error-pages.conf", "other-vhosts-access-log.conf", "security.conf", "serve-cgi-bin.conf"} {
		m.enable("apache2", "conf", name)
	}
	m.enable("apache2", "sites", "000-default.conf")
	for _, name := range slices.Concat(apacheModules, modules) {
		for _, file := range []string{name + ".load", name + ".conf"} {
			if isFile(m.path("/etc/apache2/mods-available/" + file)) {
				m.enable("apache2", "mods", file)
			}
		}
	}
}

// need skips the test if a file of a Debian package is missing, but fails in CI.
func (m *machine) need(file, pack string) {
	m.t.Helper()
	if isFile(file) {
		return
	}
	if os.Getenv("CI") != "" {
		m.t.Fatalf("%s.md needs %s of Debian's %s, which is not here: make deps", m.page.name, file, pack)
	}
	m.t.Skipf("%s.md needs %s of Debian's %s, which is not here: make deps", m.page.name, file, pack)
}

// enable enables a part of a server's configuration, as Debian does.
func (m *machine) enable(server, kind, name string) {
	m.t.Helper()
	dir := m.path("/etc/" + server + "/" + kind + "-enabled")
	m.must(os.MkdirAll(dir, 0o755))
	m.must(os.Symlink("../"+kind+"-available/"+name, filepath.Join(dir, name)))
}

func (m *machine) startApache2() *process { return m.startApache2At("/etc/apache2") }

// startApache2At starts one of several Apaches in the way of Debian's units. Each has its own directory.
func (m *machine) startApache2At(dir string) *process {
	m.t.Helper()
	p := m.start("apache2", "env", "APACHE_CONFDIR="+m.path(dir), "bash", "-c", `. "$APACHE_CONFDIR/envvars" && mkdir -p "$APACHE_RUN_DIR" && exec setsid /usr/sbin/apache2 -d "$APACHE_CONFDIR" -f apache2.conf -DFOREGROUND`) // Apache ends its whole process group
	m.reloads(p, "USR1")
	return p
}

// reloads makes systemctl reload send the given signal to a server.
func (m *machine) reloads(p *process, name string) {
	m.write(fmt.Sprintf("/run/reload/%d", p.Proc.Pid), name)
}

// phpFPM installs Debian's php-fpm.
func (m *machine) phpFPM() {
	m.t.Helper()
	m.need("/usr/sbin/php-fpm"+m.php, "php-fpm")
	m.copy("/etc/php/" + m.php + "/fpm")
}

func (m *machine) startPHPFPM() {
	m.t.Helper()
	dir := m.path("/etc/php/" + m.php + "/fpm")
	words := []string{"/usr/sbin/php-fpm" + m.php, "-F", "-c", dir, "-y", dir + "/php-fpm.conf"}
	m.start("php-fpm", words...)
	testkit.Eventually(m.t, "php-fpm listens", func() bool {
		c, err := net.Dial("unix", m.path("/run/php/php"+m.php+"-fpm.sock"))
		return err == nil && c.Close() == nil
	})
}

// nginx installs Debian's nginx.
func (m *machine) nginx() {
	m.t.Helper()
	m.need("/usr/sbin/nginx", "nginx")
	m.copyAs(debian+"nginx", "/etc/nginx")
	m.enable("nginx", "sites", "default")
	for _, dir := range []string{"conf.d", "modules-enabled"} {
		m.must(os.MkdirAll(m.path("/etc/nginx/"+dir), 0o755))
	}
}

// haproxy installs Debian's HAProxy.
func (m *machine) haproxy() {
	m.t.Helper()
	m.need("/usr/sbin/haproxy", "haproxy")
	m.copy("/etc/haproxy")
	m.must(os.MkdirAll(m.path("/run/haproxy"), 0o755))
	m.must(os.MkdirAll(m.path("/var/lib/haproxy"), 0o755))
	if os.Getuid() == 0 {
		return
	}
	file := "/etc/haproxy/haproxy.cfg"
	text := testkit.ReadFile(m.t, m.path(file))
	m.write(file, regexp.MustCompile(`(?m)^\s*(chroot|user|group) .*\n`).ReplaceAllString(text, "")) // settings that only root can use
}

// varnish installs Debian's Varnish.
func (m *machine) varnish() {
	m.t.Helper()
	m.need("/usr/sbin/varnishd", "varnish")
	m.copy("/etc/varnish/default.vcl")
	m.write("/etc/varnish/secret", "secret\n")
}

// startService starts the program of a systemd unit, as the test's user.
func (m *machine) startService(unit string) {
	m.t.Helper()
	text := testkit.ReadFile(m.t, m.path("/etc/systemd/system/"+unit))
	environment := map[string]string{}
	var words []string
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "Environment":
			for pair := range strings.FieldsSeq(value) {
				name, value, _ := strings.Cut(pair, "=")
				environment[name] = value
			}
		case "ExecStart":
			words = strings.Fields(value)
		}
	}
	env := []string{"env"}
	for name, value := range environment {
		env = append(env, name+"="+value)
	}
	for i, word := range words {
		words[i] = os.Expand(word, func(name string) string { return environment[name] })
	}
	if i := slices.Index(words, "unix,user=vcache"); i >= 0 { // drops Varnish's users, and replaces its directory
		words = append(slices.Replace(words, i, i+1, "none"), "-n", m.path("/var/lib/varnish"), "-l", "2M")
	}
	m.start(unit, append(env, words...)...)
}

// start starts a server on the machine. The server ends with the test.
func (m *machine) start(name string, command ...string) *process {
	m.t.Helper()
	p := testkit.Start(m.t, m.env(), command[0], command[1:]...)
	m.servers = append(m.servers, server{p, name})
	return p
}

// server is a program that runs on a machine.
type server struct {
	*process
	name string
}

// startTempomat starts the proxy with the configuration from the page.
func (m *machine) startTempomat() {
	m.t.Helper()
	file := m.path("/etc/tempomat/tempomat.yaml")
	p := m.start("tempomat", program(m.t, "tempomat-proxy"), "-config", file)
	m.reloads(p, "HUP")
	m.tempomat = &sidecarProcess{process: p, t: m.t, dir: m.dir, file: file, admin: m.path("/run/tempomat/admin.sock")}
}

// await waits until a program listens on each port that the page names.
func (m *machine) await(ports ...string) {
	m.t.Helper()
	for _, port := range ports {
		testkit.Eventually(m.t, "somebody listens at port "+port, func() bool {
			for _, s := range m.servers {
				select {
				case <-s.Ended:
					m.t.Fatalf("%s.md: %s ended with status %d:\n%s%s%s", m.page.name, s.name, s.Status, s.Stdout, s.Stderr, m.logs())
				default:
				}
			}
			c, err := net.DialTimeout("tcp", "127.0.0.1:"+m.ports[port], time.Second)
			return err == nil && c.Close() == nil
		})
	}
}

// logs returns the servers' log files.
func (m *machine) logs() string {
	var all strings.Builder
	files, _ := filepath.Glob(m.path("/var/log/*"))
	more, _ := filepath.Glob(m.path("/var/log/*/*"))
	for _, name := range append(files, more...) {
		if text, err := os.ReadFile(name); err == nil {
			fmt.Fprintf(&all, "%s:\n%s", strings.TrimPrefix(name, m.dir), text)
		}
	}
	return all.String()
}
